import type { Agent } from "../../types";
import { Curl } from "../../ui/curl";

/** What deleting means, and its command. */
export function DeleteWords({ agent }: { agent: Agent }) {
  return (
    <div class="stack tighter">
      <p>Nobody can call {agent.name} any more, and its queued runs are cancelled. What has ended stays readable. This cannot be undone.</p>
      <div><Curl what={`Delete ${agent.name}`} request={{ method: "DELETE", path: "/api/agents", params: { id: agent.id } }} /></div>
    </div>
  );
}
