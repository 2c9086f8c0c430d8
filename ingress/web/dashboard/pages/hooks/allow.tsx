// Shows whether automations may run an agent, with a button that allows it.
import { put } from "../../api";
import * as texts from "../../texts/hooks";
import { Words } from "../../texts/hooks";
import type { Agent } from "../../types";
import { Button } from "../../ui/button";
import { Curl } from "../../ui/curl";
import { toast } from "../../ui/toast";

export function Allow({ agent, reload }: { agent: Agent; reload: () => void }) {
  if (agent.allowedCallers.includes("system")) return <p class="set-up-allowed">{texts.automationsMayRunName(agent.name)}</p>;
  const body = { allowedCallers: [...agent.allowedCallers, "system"] };
  const allow = async () => {
    await put<Agent>("/api/agents", body, { id: agent.id });
    toast(texts.automationsMayNowRun(agent.name));
    reload();
  };
  return (
    <div class="not-allowed row between">
      <p>{texts.automationsMayNotRun(agent.name)}</p>
      <div class="actions">
        <Button look="primary" onClick={allow}>{Words.allowAutomations}</Button>
        <Curl what={texts.allowAutomationsToRun(agent.name)} request={{ method: "PUT", path: "/api/agents", params: { id: agent.id }, body }} />
      </div>
    </div>
  );
}
