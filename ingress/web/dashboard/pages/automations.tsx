// The automations page: webhooks, the last run of each automation, and the setup of a scheduler.
import { useState } from "preact/hooks";
import { get } from "../api";
import { useLive } from "../live";
import { useList, useQuery } from "../query";
import { useMay } from "../state";
import * as texts from "../texts/automations";
import { Words } from "../texts/automations";
import { triggers, wordFor } from "../texts/values";
import type { Automation, List, RunSummary } from "../types";
import { Button } from "../ui/button";
import type { Request } from "../ui/copy";
import { Curl } from "../ui/curl";
import { Empty, Loaded, More, PageHeader, Problem, Section, Status, Time } from "../ui/parts";
import { SetUp } from "./automations/setup";
import { HookList, useHooks } from "./hooks/list";
import { useNames, type Names } from "./runs/names";
import { runHref } from "./runs/rows";
import { RunTime } from "./runs/times";

export function AutomationsPage() {
  if (!useMay("admin")) {
    return (
      <>
        <PageHeader guide="dashboard#automations" title={Words.automations} />
        <Empty title={Words.automationsAreForAdmins}>
          {Words.automationsUseOrganizationsApi}
        </Empty>
      </>
    );
  }
  return <Automations />;
}

function Automations() {
  const names = useNames();
  const list = useList<Automation>("/api/automations", { limit: 50 });
  const hooks = useHooks();
  useLive("runs", list.reload);
  const known = names.loaded && [list, hooks].every((l) => l.data !== undefined || l.error !== undefined); // all parts appear together, so that nothing moves down
  return (
    <>
      <PageHeader guide="dashboard#automations" title={Words.automations} actions={<Curl what={Words.listTheAutomations} request={{ method: "GET", path: "/api/automations" }} />}>
        {Words.agentsThatRun}
      </PageHeader>
      <div class="stack">
        {known && <HookList list={hooks} names={names} />}
        <Loaded query={known ? list : { ...list, data: undefined }}>
          {(automations) => (
            <Section title={Words.automationsThatHaveRun}>
              {automations.length === 0 ? (
                <Empty title={Words.noAutomationHasRun} action={<Curl what={Words.runAgentAsAutomation} request={firstRequest(names)} />}>
                  {texts.automationHasName("/dashboard/runs")}
                </Empty>
              ) : (
                <>
                  <ul class="automations">{automations.map((a) => <Entry key={a.id} automation={a} names={names} />)}</ul>
                  <More list={list} />
                </>
              )}
            </Section>
          )}
        </Loaded>
        {known && (names.error ? <Problem error={names.error} retry={names.reload} /> : <SetUp agents={names.agents} reload={names.reload} />)}
      </div>
    </>
  );
}

/** Returns an example request, whose run makes the first automation appear. */
function firstRequest(names: Names): Request {
  const agent = names.agents.find((a) => a.allowedCallers.includes("system")) ?? names.agents[0];
  return {
    method: "POST", path: "/api/internal/run-automation", headers: { "x-trigger-type": "schedule", "x-automation-id": "nightly" },
    body: { target: agent?.id ?? "ag_…", input: { message: Words.summarizeDay }, idempotencyKey: "nightly-1" },
  };
}

function Entry({ automation, names }: { automation: Automation; names: Names }) {
  const [open, setOpen] = useState(false);
  const { agentId, lastRun } = automation;
  const press = (event: MouseEvent) => {
    if (!(event.target as Element).closest("a, button") && getSelection()?.isCollapsed !== false) setOpen(!open);
  };
  return (
    <li>
      <div class="automation" onClick={press}>
        <div class="automation-name">
          <h3>{automation.id}</h3>
          <p class="small quiet">
            {wordFor(triggers, automation.triggerType)} · <a href={"/dashboard/agents/" + encodeURIComponent(agentId ?? "")}>{names.of({ agentId, templateId: null })}</a>
          </p>
        </div>
        {lastRun.kept
          ? <a class="automation-last" href={runHref(lastRun)}><Status of={lastRun.status} /> <Time at={lastRun.createdAt} /></a>
          : <span class="automation-last"><Status of={lastRun.status} /> {texts.timeNoLongerStored(<Time at={lastRun.createdAt} />)}</span>}
        <Button look="bare" icon="down" expanded={open} label={texts.lastRunsOfId(automation.id)} onClick={() => setOpen(!open)}>{Words.runs}</Button>
      </div>
      {open && <LastRuns id={automation.id} />}
    </li>
  );
}

/** Lists the last runs of an automation. */
function LastRuns({ id }: { id: string }) {
  const params = { automationId: id, limit: 5 };
  const runs = useQuery(`last runs ${id}`, (signal) => get<List<RunSummary>>("/api/runs", params, signal));
  useLive("runs", runs.reload);
  return (
    <div class="last-runs">
      <Loaded query={runs}>
        {({ data }) => (
          <>
            {data.length === 0 && <p class="small quiet">{Words.itsRunsAreNoLonger}</p>}
            <ul aria-label={texts.lastRunsOfId(id)}>
              {data.map((run) => (
                <li key={run.id}>
                  <Status of={run.status} />
                  <a href={runHref(run)}><Time at={run.createdAt} /></a>
                  <span class="run-key code" title={run.idempotencyKey ?? undefined}>
                    {run.idempotencyKey ?? <span class="quiet">{Words.noIdempotencyKey}</span>}
                  </span>
                  <span class="number quiet"><RunTime run={run} /></span>
                </li>
              ))}
            </ul>
            <div class="row">
              <a href={"/dashboard/runs?automation=" + encodeURIComponent(id)}>{Words.showAllRuns}</a>
              <Curl what={texts.listRunsOf(id)} request={{ method: "GET", path: "/api/runs", params: { automationId: id } }} />
            </div>
          </>
        )}
      </Loaded>
    </div>
  );
}
