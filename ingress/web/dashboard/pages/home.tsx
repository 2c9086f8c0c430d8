// The first page: the first steps, the notices, the newest runs, and a small plot.
import { useEffect } from "preact/hooks";
import { reloadOverview, useOverview } from "../overview";
import { useMay } from "../state";
import { Words } from "../texts/home";
import { Curl } from "../ui/curl";
import { PageHeader, Problem, Loading } from "../ui/parts";
import { Needs } from "./home/needs";
import { Newest, useNewest } from "./home/newest";
import { Steps } from "./home/steps";
import { Week } from "./home/week";
import { useNames } from "./runs/names";

export function HomePage() {
  const { data, error } = useOverview();
  const newest = useNewest();
  const names = useNames();
  const admin = useMay("admin");
  useEffect(() => void reloadOverview(), []); // reload, because events do not report all changes, such as a new key
  const complete = data !== undefined && (newest.data !== undefined || newest.error !== undefined); // shown only then, so that no part moves down later
  return (
    <>
      <PageHeader guide="dashboard#home" title={Words.home}>{Words.whatNeedsYou}</PageHeader>
      {data === undefined && error && <Problem error={error} retry={reloadOverview} />}
      {data && complete ? (
        <div class="stack">
          {error && <Problem error={error} retry={reloadOverview} />}
          <Steps steps={data.steps} agents={names.agents} />
          <Needs of={data} stale={error !== undefined} />
          <div class="home-halves">
            <Newest runs={newest} names={names} />
            {admin && <Week />}
          </div>
        </div>
      ) : !error && <Loading />}
      <Curl what={Words.readTheOverview} request={{ method: "GET", path: "/api/home" }} />
    </>
  );
}
