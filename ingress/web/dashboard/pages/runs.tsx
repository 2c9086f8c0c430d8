// The live list of the organization's runs.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { useConnected, useLive } from "../live";
import { useNarrow } from "../narrow";
import { useOverview } from "../overview";
import { useMay } from "../state";
import * as texts from "../texts/runs";
import { Words } from "../texts/runs";
import { Button, LinkButton } from "../ui/button";
import { Curl } from "../ui/curl";
import { Icon } from "../ui/icon";
import { Empty, PageHeader, Problem, Loading } from "../ui/parts";
import { clearFilter, Export, isFiltered, readFilter, Filters, forOpen, filterParams, type Filter } from "./runs/filters";
import { useRunList } from "./runs/list";
import { useNames } from "./runs/names";
import { Plot } from "./runs/rate";
import { RunRows } from "./runs/rows";

const indexDelay = 2500; // milliseconds after which a search finds a run that has finished
const maxScroll = 160; // maximum scroll position in pixels at which new rows are shown immediately

export function RunsPage() {
  const filter = readFilter(new URLSearchParams(location.search));
  const params = filterParams(filter);
  const names = useNames();
  const all = useMay("admin");
  const narrow = useNarrow();
  const [paused, setPaused] = useState(false);
  const connected = useConnected();
  const list = useRunList(params, () => scrollY > maxScroll);
  const overview = useOverview();
  const counted = overview.data !== undefined || overview.error !== undefined; // waits for the overview, because its notice of waiting runs would move the list down
  const searching = filter.words !== "";
  const again = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const refresh = useCallback(() => {
    if (paused) return;
    list.refresh();
    clearTimeout(again.current);
    if (searching) again.current = setTimeout(list.refresh, indexDelay);
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
      <PageHeader guide="dashboard#runs" title={Words.runs} actions={
        <>
          <span role="status" class={"live" + (paused ? " paused" : connected ? "" : " lost")}>{paused ? Words.paused : connected ? Words.live : Words.reconnecting}</span>
          <Button pressed={paused} onClick={resume}>{paused ? Words.resume : Words.pause}</Button>
          <Curl what={Words.listTheseRuns} request={{ method: "GET", path: "/api/runs", params }} />
          <Curl what={Words.exportTheseRuns} request={{ method: "GET", path: "/api/runs", params: { ...params, export: "csv" } }} />
        </>
      }>
        {all ? Words.everyMessageToAgent : Words.eachOfYourMessages}
      </PageHeader>
      <div class="stack">
        <div class={"run-choice" + (all ? " with-rate" : "")}>
          <div class="stack tight">
            <Filters filter={filter} names={names} rows={list.rows ?? []} />
            {(!narrow || isFiltered(filter)) && (
              <div class="actions">
                {!narrow && <Export filter={filter} />}
                {isFiltered(filter) && <Button look="bare" icon="close" onClick={clearFilter}>{Words.clearFilters}</Button>}
              </div>
            )}
          </div>
          {all && <Plot filter={filter} />}
        </div>
        <NeedsYou count={overview.data?.approvals ?? 0} />
        <Fresh count={list.fresh} show={list.show} />
        {list.error && <Problem error={list.error} retry={list.refresh} />}
        {list.rows === undefined || !counted ? !list.error && <Loading /> : list.rows.length === 0 ? !list.error && <NoRuns filter={filter} more={list.hasMore} /> : (
          <RunRows rows={list.rows} names={names} onCancelled={list.replace} />
        )}
        {counted && list.hasMore && <div><Button onClick={list.more} disabled={list.loadingMore}>{list.loadingMore ? Words.loading : filter.words !== "" ? Words.searchOlderRuns : Words.showOlderRuns}</Button></div>}
      </div>
    </>
  );
}

/** Shows the hidden new runs when the reader scrolls to the top. */
function useReturn(show: () => void): void {
  useEffect(() => {
    const scrolled = () => {
      if (scrollY < maxScroll / 4) show();
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
          <strong>{n === 1 ? Words.runIsWaiting : texts.runsAreWaiting(n >= 100 ? Words.hundredOrMore : n)}</strong>
          <a href="/dashboard/inbox">{Words.openTheInbox}</a>
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
      {count > 0 && <Button look="primary" onClick={reveal}>{count >= 100 ? Words.hundredOrMoreNewRuns : count === 1 ? Words.oneNewRun : texts.countNewRuns(count)}</Button>}
    </div>
  );
}

const firstChat = {
  method: "POST", path: "/api/agents", params: { template: "tpl_support", action: "chat" }, body: { sessionId: "first", message: Words.hello },
};

function NoRuns({ filter, more }: { filter: Filter; more: boolean }) {
  if (filter.words !== "" && forOpen(filter)) {
    return (
      <Empty title={Words.searchFindsFinishedRuns} action={<Button onClick={clearFilter}>{Words.clearFilters}</Button>}>
        {Words.removeWordsOrChoose}
      </Empty>
    );
  }
  if (more) return <Empty title={Words.nothingFoundSoFar}>{Words.searchGoesOnInOlder}</Empty>;
  if (isFiltered(filter)) {
    return (
      <Empty title={Words.noRunsMatchThese} action={<Button onClick={clearFilter}>{Words.clearFilters}</Button>}>
        {Words.newRunsThatMatch}
      </Empty>
    );
  }
  return (
    <Empty title={Words.noRunsYet} action={
      <div class="actions">
        <LinkButton href="/dashboard/agents" look="primary">{Words.goToAgents}</LinkButton>
        <Curl what={Words.chatWithTemplate} request={firstChat} />
      </div>
    }>
      {Words.runIsOneMessage}
    </Empty>
  );
}
