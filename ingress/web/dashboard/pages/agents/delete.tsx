import type { Agent } from "../../types";
import { Curl } from "../../ui/curl";

/** Explains the effects of deleting an agent, and shows the curl command. */
export function DeleteWords({ agent }: { agent: Agent }) {
  return (
    <div class="stack tighter">
      <p>{agent.name} can no longer be called, and its queued runs are cancelled. Finished runs stay readable. This can't be undone.</p>
      <Curl what={`Delete ${agent.name}`} request={{ method: "DELETE", path: "/api/agents", params: { id: agent.id } }} />
    </div>
  );
}
