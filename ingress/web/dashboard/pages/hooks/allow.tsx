// Whether automations may run an agent, and the way to let them.
import { put } from "../../api";
import type { Agent } from "../../types";
import { Button } from "../../ui/button";
import { Curl } from "../../ui/curl";
import { toast } from "../../ui/toast";

export function Allow({ agent, reload }: { agent: Agent; reload: () => void }) {
  if (agent.allowedCallers.includes("system")) return <p class="set-up-allowed">{agent.name} may be run by automations.</p>;
  const body = { allowedCallers: [...agent.allowedCallers, "system"] };
  const allow = async () => {
    await put<Agent>("/api/agents", body, { id: agent.id });
    toast(`${agent.name} may be run by automations now.`);
    reload();
  };
  return (
    <div class="not-allowed row between">
      <p><strong>{agent.name} may not be run by automations.</strong> Only people may call it: what triggers it is refused.</p>
      <div class="actions">
        <Button look="primary" onClick={allow}>Allow automations</Button>
        <Curl what={`Allow automations to run ${agent.name}`} request={{ method: "PUT", path: "/api/agents", params: { id: agent.id }, body }} />
      </div>
    </div>
  );
}
