// The ids and times of a run.
import type { ComponentChildren } from "preact";
import { address } from "../../api";
import type { Run } from "../../types";
import { Copy } from "../../ui/copy";
import { exactTime, Section, Time } from "../../ui/parts";

export function Facts({ run, name, known }: { run: Run; name: string; known: boolean }) {
  const { type, automationId } = run.trigger;
  return (
    <Section title="Details">
      <dl class="run-facts">
        <Fact name="Run"><Id text={run.id} of="run id" /></Fact>
        <Fact name={run.agentId === null ? "Template" : "Agent"}><Target run={run} name={name} known={known} /></Fact>
        <Fact name="Session">
          <a class="code" href={address("/dashboard/runs", { session: run.sessionId, agent: run.agentId })}>{run.sessionId}</a>
          <Copy text={run.sessionId} label="Copy session id" words="" />
        </Fact>
        <Fact name="Trigger">{type}</Fact>
        {automationId !== null && <Fact name="Automation"><a href={address("/dashboard/runs", { automation: automationId })}>{automationId}</a></Fact>}
        {run.usage.model !== "" && <Fact name="Model"><span class="code">{run.usage.model}</span></Fact>}
        {run.idempotencyKey !== null && <Fact name="Idempotency key"><Id text={run.idempotencyKey} of="idempotency key" /></Fact>}
        <Fact name="Accepted"><When at={run.createdAt} /></Fact>
        {run.startedAt !== null && <Fact name="Started"><When at={run.startedAt} /></Fact>}
        {run.finishedAt !== null && <Fact name="Finished"><When at={run.finishedAt} /></Fact>}
        {run.expiresAt !== null && <Fact name="Stored until"><When at={run.expiresAt} /></Fact>}
      </dl>
    </Section>
  );
}

/** Shows an exact time, and how long ago it was. */
function When({ at }: { at: string }) {
  return <span class="when">{exactTime(at)} <span class="quiet">(<Time at={at} />)</span></span>;
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return <div><dt>{name}</dt><dd>{children}</dd></div>;
}

function Id({ text, of }: { text: string; of: string }) {
  return <><span class="code">{text}</span><Copy text={text} label={`Copy ${of}`} words="" /></>;
}

/**
 * Links to the agent or template. If it was deleted there is no page for it, so its id is shown.
 */
function Target({ run, name, known }: { run: Run; name: string; known: boolean }) {
  if (!known) return <Id text={name} of={run.agentId === null ? "template id" : "agent id"} />;
  if (run.agentId === null) return <a href={"/dashboard/templates/" + encodeURIComponent(run.templateId ?? "")}>{name}</a>;
  return <a href={"/dashboard/agents/" + encodeURIComponent(run.agentId)}>{name}</a>;
}
