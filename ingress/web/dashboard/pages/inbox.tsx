// The runs that wait for a person's decision.
import { Approval } from "../answer/approval";
import { useLive } from "../live";
import { reloadOverview } from "../overview";
import { useList } from "../query";
import * as texts from "../texts/home";
import { Words } from "../texts/home";
import type { RunSummary } from "../types";
import { Curl } from "../ui/curl";
import { Empty, Loaded, More, PageHeader, Time } from "../ui/parts";
import { toast } from "../ui/toast";
import { useNames, type Names } from "./runs/names";
import { runHref } from "./runs/rows";

export function InboxPage() {
  const list = useList<RunSummary>("/api/runs", { waitsFor: "person" });
  const names = useNames();
  useLive("runs", list.reload);
  const decided = () => {
    toast(Words.yourDecisionIsSaved);
    list.reload();
    void reloadOverview();
  };
  return (
    <>
      <PageHeader guide="tools#approval" title={Words.inbox}>{Words.runsThatWait}</PageHeader>
      <Curl what={Words.listWaitingRuns} request={{ method: "GET", path: "/api/runs", params: { waitsFor: "person" } }} />
      <Loaded query={list}>{(runs) => runs.length === 0 ? (
        <Empty title={Words.nothingWaitsForYou}>
          {Words.runWaitsHere}
        </Empty>
      ) : (
        <div class="stack">
          <ul class="inbox">{runs.map((run, i) => <WaitingRun key={run.id} run={run} names={names} label={texts.decisionNOf(i + 1, names.of(run))} decided={decided} />)}</ul>
          <More list={list} />
        </div>
      )}</Loaded>
    </>
  );
}

function WaitingRun({ run, names, label, decided }: { run: RunSummary; names: Names; label: string; decided: () => void }) {
  return (
    <li class="stack tight">
      <p class="row between"><a href={runHref(run)}>{names.of(run)}</a><span class="small quiet">{texts.startedTime(<Time at={run.createdAt} />)}</span></p>
      <Approval key={run.requiredAction?.toolCallId} run={run} label={label} onDone={decided} />
    </li>
  );
}
