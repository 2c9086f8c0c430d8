// The live list of the organization's runs.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { useConnected, useLive } from "../live";
import { useNarrow } from "../narrow";
import { useOverview } from "../overview";
import { useMay } from "../state";
import { Button, LinkButton } from "../ui/button";
import { Curl } from "../ui/curl";
import { Icon } from "../ui/icon";
import { Empty, PageHeader, Problem, Waiting } from "../ui/parts";
import { clearFilter, Export, filtered, filterOf, Filters, forOpen, paramsOf, type Filter } from "./runs/filters";
import { useRunList } from "./runs/list";
import { useNames } from "./runs/names";
import { Plot } from "./runs/rate";
import { RunRows } from "./runs/rows";

const indexed = 2500; // milliseconds after which a search finds a run that has finished
const atTop = 160; // pixels: a reader who has not scrolled further sees new rows immediately

export function RunsPage() {
  const filter = filterOf(new URLSearchParams(location.search));
  const params = paramsOf(filter);
  const names = useNames();
  const all = useMay("admin");
  const narrow = useNarrow();
  const [paused, setPaused] = useState(false);
  const connected = useConnected();
  const list = useRunList(params, () => scrollY > atTop);
  const overview = useOverview();
  const counted = overview.data !== undefined || overview.error !== undefined; // otherwise the waiting runs would move the list down
  const searching = filter.words !== "";
  const again = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const refresh = useCallback(() => {
    if (paused) return;
    list.refresh();
    clearTimeout(again.current);
    if (searching) again.current = setTimeout(list.refresh, indexed);
  }, [paused, searching]);
  useEffect(() => () => clearTimeout(again.current), [searching, paused]);
  useLive("runs", refresh);
  useReturn(list.show);
  const resume = () => {
    if (paused) list.refresh();
    setPaused(!paused);
  };
  return (
    <>
      <PageHeader guide="traces" title="Runs" actions={
        <>
          <span role="status" class={"live" + (paused ? " paused" : connected ? "" : " lost")}>{paused ? "Paused" : connected ? "Live" : "Reconnecting"}</span>
          <Button pressed={paused} onClick={resume}>{paused ? "Resume" : "Pause"}</Button>
          <Curl what="List these runs" request={{ method: "GET", path: "/api/runs", params }} />
          <Curl what="Export these runs" request={{ method: "GET", path: "/api/runs", params: { ...params, export: "csv" } }} />
        </>
      }>
        {all ? "Every message to an agent and every trigger of an automation is a run." : "Each of your messages to an agent is a run."}
      </PageHeader>
      <div class="stack">
        <div class={"run-choice" + (all ? " with-rate" : "")}>
          <div class="stack tight">
            <Filters filter={filter} names={names} rows={list.rows ?? []} />
            {(!narrow || filtered(filter)) && (
              <div class="actions">
                {!narrow && <Export filter={filter} />}
                {filtered(filter) && <Button look="bare" icon="close" onClick={clearFilter}>Clear filters</Button>}
              </div>
            )}
          </div>
          {all && <Plot filter={filter} />}
        </div>
        <NeedsYou count={overview.data?.approvals ?? 0} />
        <Fresh count={list.fresh} show={list.show} />
        {list.error && <Problem error={list.error} retry={list.refresh} />}
        {list.rows === undefined || !counted ? !list.error && <Waiting /> : list.rows.length === 0 ? !list.error && <NoRuns filter={filter} more={list.hasMore} /> : (
          <RunRows rows={list.rows} names={names} onCancelled={list.replace} />
        )}
        {counted && list.hasMore && <div><Button onClick={list.more} disabled={list.loadingMore}>{list.loadingMore ? "Loading …" : filter.words !== "" ? "Search older runs" : "Show older runs"}</Button></div>}
      </div>
    </>
  );
}

/** Shows the runs that were held back when the reader scrolls to the top. */
function useReturn(show: () => void): void {
  useEffect(() => {
    const scrolled = () => {
      if (scrollY < atTop / 4) show();
    };
    addEventListener("scroll", scrolled, { passive: true });
    return () => removeEventListener("scroll", scrolled);
  }, [show]);
}

/** Shows how many runs wait for a decision. */
function NeedsYou({ count: n }: { count: number }) {
  return (
    <div role="status">
      {n > 0 && (
        <p class="needs-you">
          <Icon name="warn" />
          <strong>{n === 1 ? "1 run is waiting for you" : `${n >= 100 ? "100 or more" : n} runs are waiting for you`}</strong>
          <a href="/dashboard/inbox">Open the inbox</a>
        </p>
      )}
    </div>
  );
}

/** A button that shows the runs that arrived while the reader had scrolled down. */
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

function NoRuns({ filter, more }: { filter: Filter; more: boolean }) {
  if (filter.words !== "" && forOpen(filter)) {
    return (
      <Empty title="A search finds finished runs only" action={<Button onClick={clearFilter}>Clear filters</Button>}>
        Remove the words or choose another status.
      </Empty>
    );
  }
  if (more) return <Empty title="Nothing found so far">The search goes on in older runs.</Empty>;
  if (filtered(filter)) {
    return (
      <Empty title="No runs match these filters" action={<Button onClick={clearFilter}>Clear filters</Button>}>
        New runs that match appear here automatically.
      </Empty>
    );
  }
  return (
    <Empty title="No runs yet" action={
      <div class="actions">
        <LinkButton href="/dashboard/agents" look="primary">Go to agents</LinkButton>
        <Curl what="Chat with a template" request={firstChat} />
      </div>
    }>
      A run is one message to an agent or one trigger of an automation, with its result: the answer, the tools used,
      the duration and the cost. Chat with an agent, and its run appears here immediately.
    </Empty>
  );
}
