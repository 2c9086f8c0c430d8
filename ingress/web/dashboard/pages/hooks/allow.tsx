// Shows whether automations may run an agent, with a button that allows it.
import { put } from "../../api";
import type { Agent } from "../../types";
import { Button } from "../../ui/button";
import { Curl } from "../../ui/curl";
import { toast } from "../../ui/toast";

export function Allow({ agent, reload }: { agent: Agent; reload: () => void }) {
  if (agent.allowedCallers.includes("system")) return <p class="set-up-allowed">Automations may run {agent.name}.</p>;
  const body = { allowedCallers: [...agent.allowedCallers, "system"] };
  const allow = async () => {
    await put<Agent>("/api/agents", body, { id: agent.id });
    toast(`Automations may now run ${agent.name}.`);
    reload();
  };
  return (
    <div class="not-allowed row between">
      <p><strong>Automations may not run {agent.name}.</strong> Only people may call it, so triggers are refused.</p>
      <div class="actions">
        <Button look="primary" onClick={allow}>Allow automations</Button>
        <Curl what={`Allow automations to run ${agent.name}`} request={{ method: "PUT", path: "/api/agents", params: { id: agent.id }, body }} />
      </div>
    </div>
  );
}
