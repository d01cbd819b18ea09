import { createRoot } from "react-dom/client";
import "./randomUUID";
import { Table } from "./Table";
import "./style.css";

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(<Table />);
}
