import * as texts from "../../texts/agents";
import type { Agent } from "../../types";
import { Curl } from "../../ui/curl";

/** Explains the effects of deleting an agent, and shows the curl command. */
export function DeleteWords({ agent }: { agent: Agent }) {
  return (
    <div class="stack tighter">
      <p>{texts.canNoLonger(agent.name)}</p>
      <Curl what={texts.deleteName(agent.name)} request={{ method: "DELETE", path: "/api/agents", params: { id: agent.id } }} />
    </div>
  );
}
