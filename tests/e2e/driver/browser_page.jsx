// A page of an application: shows the state of an agent, and changes it both ways.
import { useAgent } from "agents/react";
import { createRoot } from "react-dom/client";

function Counter() {
  const name = new URLSearchParams(location.search).get("name");
  const agent = useAgent({ agent: "CounterAgent", name });
  return (
    <main>
      <output>{agent.state?.count ?? "none"}</output>
      <button id="set" onClick={() => agent.setState({ count: agent.state.count + 10 })}>set</button>
      <button id="call" onClick={() => agent.call("increment")}>call</button>
    </main>
  );
}

createRoot(document.body.appendChild(document.createElement("div"))).render(<Counter />);
