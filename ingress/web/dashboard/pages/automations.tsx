// The automations page: webhooks, the last run of each automation, and the setup of a scheduler.
import { useState } from "preact/hooks";
import { get } from "../api";
import { useLive } from "../live";
import { useList, useQuery } from "../query";
import { useMay } from "../state";
import type { Automation, List, RunSummary } from "../types";
import { Button } from "../ui/button";
import type { Request } from "../ui/copy";
import { Curl } from "../ui/curl";
import { Empty, Loaded, More, PageHeader, Problem, Section, Status, Time } from "../ui/parts";
import { SetUp } from "./automations/setup";
import { HookList, useHooks } from "./hooks/list";
import { useNames, type Names } from "./runs/names";
import { hrefOf } from "./runs/rows";
import { RunTime } from "./runs/times";

export function AutomationsPage() {
  if (!useMay("admin")) {
    return (
      <>
        <PageHeader guide="guides/cron" title="Automations" />
        <Empty title="Automations are for admins">
          Automations use the organization's API keys, which only admins can create. Ask an admin to set up the automation, or to make you an admin.
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
      <PageHeader guide="guides/cron" title="Automations" actions={<Curl what="List the automations" request={{ method: "GET", path: "/api/automations" }} />}>
        Agents that run on a schedule, or when another service sends a request.
      </PageHeader>
      <div class="stack">
        {known && <HookList list={hooks} names={names} />}
        <Loaded query={known ? list : { ...list, data: undefined }}>
          {(automations) => (
            <Section title="Automations that have run">
              {automations.length === 0 ? (
                <Empty title="No automation has run yet" action={<Curl what="Run an agent as an automation" request={firstOf(names)} />}>
                  An automation is a scheduler or a service that sends a request to run an agent with a message. It
                  appears here after its first run. Set one up below.
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

/** Returns a request whose run makes the first automation appear. */
function firstOf(names: Names): Request {
  const agent = names.agents.find((a) => a.allowedCallers.includes("system")) ?? names.agents[0];
  return {
    method: "POST", path: "/api/internal/run-automation", headers: { "x-trigger-type": "schedule", "x-automation-id": "nightly" },
    body: { target: agent?.id ?? "ag_…", input: { message: "Summarize the day." }, idempotencyKey: "nightly-1" },
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
            {automation.triggerType} · <a href={"/dashboard/agents/" + encodeURIComponent(agentId ?? "")}>{names.of({ agentId, templateId: null })}</a>
          </p>
        </div>
        {lastRun.kept
          ? <a class="automation-last" href={hrefOf(lastRun)}><Status of={lastRun.status} /> <Time at={lastRun.createdAt} /></a>
          : <span class="automation-last"><Status of={lastRun.status} /> <Time at={lastRun.createdAt} /> no longer stored</span>}
        <Button look="bare" icon="down" expanded={open} label={`Last deliveries of ${automation.id}`} onClick={() => setOpen(!open)}>Deliveries</Button>
      </div>
      {open && <Deliveries id={automation.id} />}
    </li>
  );
}

/** Lists the last runs of an automation. */
function Deliveries({ id }: { id: string }) {
  const params = { automationId: id, limit: 5 };
  const runs = useQuery(`deliveries ${id}`, (signal) => get<List<RunSummary>>("/api/runs", params, signal));
  useLive("runs", runs.reload);
  return (
    <div class="deliveries">
      <Loaded query={runs}>
        {({ data }) => (
          <>
            {data.length === 0 && <p class="small quiet">Its runs are no longer stored.</p>}
            <ul aria-label={`Last deliveries of ${id}`}>
              {data.map((run) => (
                <li key={run.id}>
                  <Status of={run.status} />
                  <a href={hrefOf(run)}><Time at={run.createdAt} /></a>
                  <span class="delivery-key code" title={run.idempotencyKey ?? undefined}>
                    {run.idempotencyKey ?? <span class="quiet">no idempotency key</span>}
                  </span>
                  <span class="number quiet"><RunTime run={run} /></span>
                </li>
              ))}
            </ul>
            <div class="row">
              <a href={"/dashboard/runs?automation=" + encodeURIComponent(id)}>Show all runs</a>
              <Curl what={`List the runs of ${id}`} request={{ method: "GET", path: "/api/runs", params: { automationId: id } }} />
            </div>
          </>
        )}
      </Loaded>
    </div>
  );
}
