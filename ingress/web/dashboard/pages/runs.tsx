// The runs of the organization, as they come and go.
import { useCallback, useEffect, useState } from "preact/hooks";
import { get } from "../api";
import { useConnected, useLive } from "../live";
import { useQuery } from "../query";
import { useMay } from "../state";
import type { List, RunSummary } from "../types";
import { Button, LinkButton } from "../ui/button";
import { Curl } from "../ui/curl";
import { Icon } from "../ui/icon";
import { Empty, PageHeader, Problem, Waiting } from "../ui/parts";
import { clearFilter, filtered, filterOf, Filters, paramsOf } from "./runs/filters";
import { useRunList } from "./runs/list";
import { useNames } from "./runs/names";
import { RunRows } from "./runs/rows";

const atTop = 160; // pixels: who has scrolled no further sees new rows at once

export function RunsPage() {
  const filter = filterOf(new URLSearchParams(location.search));
  const params = paramsOf(filter);
  const names = useNames();
  const all = useMay("admin");
  const [paused, setPaused] = useState(false);
  const connected = useConnected();
  const list = useRunList(params, () => scrollY > atTop);
  const waiting = useQuery("runs that wait", (signal) => get<List<RunSummary>>("/api/runs", { status: "requires_action", limit: 100 }, signal));
  const counted = waiting.data !== undefined || waiting.error !== undefined; // until then the list would be pushed down by what waits
  const refresh = useCallback(() => {
    if (paused) return;
    list.refresh();
    waiting.reload();
  }, [paused]);
  useLive("runs", refresh);
  useReturn(list.show);
  const resume = () => {
    if (paused) list.refresh();
    setPaused(!paused);
  };
  return (
    <>
      <PageHeader title="Runs" actions={
        <>
          <span role="status" class={"live" + (paused ? " paused" : connected ? "" : " lost")}>{paused ? "Paused" : connected ? "Live" : "Reconnecting"}</span>
          <Button pressed={paused} onClick={resume}>{paused ? "Resume" : "Pause"}</Button>
          <Curl what="List these runs" request={{ method: "GET", path: "/api/runs", params }} />
        </>
      }>
        {all ? "Every message to an agent and every trigger of an automation is a run." : "Every message of yours to an agent is a run."}
      </PageHeader>
      <div class="stack">
        <Filters filter={filter} agents={names.agents} />
        <NeedsYou waiting={waiting.data} filtering={filter.status === "requires_action"} />
        <Fresh count={list.fresh} show={list.show} />
        {list.error && <Problem error={list.error} retry={list.refresh} />}
        {list.rows === undefined || !counted ? !list.error && <Waiting /> : list.rows.length === 0 ? <NoRuns filtering={filtered(filter)} /> : (
          <RunRows rows={list.rows} names={names} onCancelled={list.replace} />
        )}
        {counted && list.hasMore && <div><Button onClick={list.more} disabled={list.loadingMore}>{list.loadingMore ? "Loading …" : "Show older runs"}</Button></div>}
      </div>
    </>
  );
}

/** Shows what was kept back once somebody is at the top again by themselves. */
function useReturn(show: () => void): void {
  useEffect(() => {
    const scrolled = () => {
      if (scrollY < atTop / 4) show();
    };
    addEventListener("scroll", scrolled, { passive: true });
    return () => removeEventListener("scroll", scrolled);
  }, [show]);
}

/** How many runs wait for a decision, always in sight of who can make it. */
function NeedsYou({ waiting, filtering }: { waiting: List<RunSummary> | undefined; filtering: boolean }) {
  const n = waiting?.data.length ?? 0;
  return (
    <div role="status">
      {n > 0 && (
        <p class="needs-you">
          <Icon name="warn" />
          <strong>{n === 1 ? "1 run waits for you" : `${waiting?.hasMore ? "More than " : ""}${n} runs wait for you`}</strong>
          {!filtering && <a href="/dashboard/runs?status=requires_action">Show {n === 1 ? "it" : "them"}</a>}
        </p>
      )}
    </div>
  );
}

/** The way to runs that came while somebody has scrolled down. */
function Fresh({ count, show }: { count: number; show: () => void }) {
  const reveal = () => {
    show();
    scrollTo(0, 0);
  };
  return (
    <div class="fresh" role="status">
      {count > 0 && <Button look="primary" onClick={reveal}>{count >= 100 ? "100 or more new runs" : count === 1 ? "1 new run" : `${count} new runs`}</Button>}
    </div>
  );
}

const firstChat = {
  method: "POST", path: "/api/agents", params: { template: "tpl_support", action: "chat" }, body: { sessionId: "first", message: "Hello" },
};

function NoRuns({ filtering }: { filtering: boolean }) {
  if (filtering) {
    return (
      <Empty title="No run fits these filters" action={<Button onClick={clearFilter}>Clear filters</Button>}>
        Those that do appear here as they are made.
      </Empty>
    );
  }
  return (
    <Empty title="Nothing has run yet" action={
      <div class="actions">
        <LinkButton href="/dashboard" look="primary">To the agents</LinkButton>
        <Curl what="Chat with a template" request={firstChat} />
      </div>
    }>
      A run is one message to an agent, or one trigger of an automation, and what came of it: the answer, the tools it used,
      how long it took and what it cost. Chat with an agent, and its run appears here at once.
    </Empty>
  );
}
