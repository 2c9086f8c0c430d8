// The newest runs.
import { get } from "../../api";
import { useLive } from "../../live";
import { useQuery, type Query } from "../../query";
import { Words } from "../../texts/home";
import type { List, RunSummary } from "../../types";
import { Loaded, Section, Status, Time } from "../../ui/parts";
import type { Names } from "../runs/names";
import { gist, runHref, runQuestion } from "../runs/rows";

const maxShown = 5;
const pace = 2000; // milliseconds between two loads

export function useNewest(): Query<List<RunSummary>> {
  const runs = useQuery("newest runs", (signal) => get<List<RunSummary>>("/api/runs", { limit: maxShown }, signal));
  useLive("runs", runs.reload, pace);
  return runs;
}

export function Newest({ runs, names }: { runs: Query<List<RunSummary>>; names: Names }) {
  return (
    <Section title={Words.newestRuns} actions={<a href="/dashboard/runs">{Words.allRuns}</a>}>
      <Loaded query={runs}>{({ data }) => data.length === 0 ? (
        <p class="quiet">{Words.noRunsYet}</p>
      ) : (
        <ul class="newest">
          {data.map((run) => (
            <li key={run.id}>
              <a href={runHref(run)}>{names.of(run)}</a>
              {run.input && <p class="small">{runQuestion(run)}</p>}
              <p class="small quiet">{gist(run)}</p>
              <span class="newest-state small quiet"><Status of={run.status} /><Time at={run.createdAt} /></span>
            </li>
          ))}
        </ul>
      )}</Loaded>
    </Section>
  );
}
