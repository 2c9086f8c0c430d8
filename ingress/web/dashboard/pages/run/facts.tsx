// The ids and times of a run.
import type { ComponentChildren } from "preact";
import { address } from "../../api";
import * as texts from "../../texts/run";
import { Words } from "../../texts/run";
import { triggers, wordFor } from "../../texts/values";
import type { Run } from "../../types";
import { Copy } from "../../ui/copy";
import { exactTime, Section, Time } from "../../ui/parts";
import { settingWords, type SettingName } from "../agent/draft";

export function Facts({ run, name, known }: { run: Run; name: string; known: boolean }) {
  const { type, automationId } = run.trigger;
  return (
    <Section title={Words.details}>
      <dl class="run-facts">
        <Fact name={Words.run}><Id text={run.id} of={Words.runId} /></Fact>
        <Fact name={run.agentId === null ? Words.template : Words.agent}><Target run={run} name={name} known={known} /></Fact>
        <Fact name={Words.session}>
          <a class="code" href={address("/dashboard/runs", { session: run.sessionId, agent: run.agentId })}>{run.sessionId}</a>
          <Copy text={run.sessionId} label={Words.copySessionId} words="" />
        </Fact>
        {run.previousRunId && <Fact name={Words.continues}><a class="code" href={"/dashboard/runs/" + run.previousRunId}>{run.previousRunId}</a></Fact>}
        <Fact name={Words.trigger}>{wordFor(triggers, type)}</Fact>
        {automationId !== null && <Fact name={Words.automation}><a href={address("/dashboard/runs", { automation: automationId })}>{automationId}</a></Fact>}
        {run.usage.model !== "" && <Fact name={Words.model}><span class="code">{run.usage.model}</span></Fact>}
        {run.settings && Object.entries(run.settings).map(([name, value]) => (
          <Fact key={name} name={settingWords[name as SettingName] ?? name}><span class="code">{JSON.stringify(value)}</span></Fact>
        ))}
        {run.idempotencyKey !== null && <Fact name={Words.idempotencyKey}><Id text={run.idempotencyKey} of={Words.idempotencyKeyLower} /></Fact>}
        <Fact name={Words.accepted}><When at={run.createdAt} /></Fact>
        {run.startedAt !== null && <Fact name={Words.started}><When at={run.startedAt} /></Fact>}
        {run.finishedAt !== null && <Fact name={Words.finished}><When at={run.finishedAt} /></Fact>}
        {run.expiresAt !== null && <Fact name={Words.storedUntil}><When at={run.expiresAt} /></Fact>}
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
  return <><span class="code">{text}</span><Copy text={text} label={texts.copyOf(of)} words="" /></>;
}

/**
 * Links to the agent or template. If the agent was deleted, there is no page, and its id is shown.
 */
function Target({ run, name, known }: { run: Run; name: string; known: boolean }) {
  if (!known) return <Id text={name} of={run.agentId === null ? Words.templateId : Words.agentId} />;
  if (run.agentId === null) return <a href={"/dashboard/templates/" + encodeURIComponent(run.templateId ?? "")}>{name}</a>;
  return <a href={"/dashboard/agents/" + encodeURIComponent(run.agentId)}>{name}</a>;
}
