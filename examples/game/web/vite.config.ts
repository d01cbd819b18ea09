import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [react()],
  // `npm run dev` serves the page as you write it; agents are still the gateway's.
  server: { proxy: { "/agents": { target: "http://127.0.0.1:8787", ws: true } } },
});
