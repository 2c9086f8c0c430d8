// Pages whose code comes when somebody first goes to one of them, so that the others are there sooner.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Button } from "./ui/button";
import { Empty, PageHeader, Waiting } from "./ui/parts";

type Shown = ComponentType<Record<string, string>>;

/**
 * Gives what makes a page of pages that come together: it stands in for the page until load has brought them, and shows it
 * at once from then on.
 */
export function later<Pages>(load: () => Promise<Pages>): (pick: (pages: Pages) => Shown) => Shown {
  let pages: Pages | null = null;
  const bring = async () => {
    pages ??= await load();
  };
  return (pick) => function Later(params: Record<string, string>) {
    const [tried, setTried] = useState(false);
    useEffect(() => {
      let here = true;
      const done = () => here && setTried(true);
      bring().then(done, done); // also where the pages came since this was drawn
      return () => {
        here = false;
      };
    }, []);
    if (pages !== null) {
      const Page = pick(pages);
      return <Page {...params} />;
    }
    return tried ? <Missing /> : <Waiting />;
  };
}

function Missing() {
  const [again, setAgain] = useState(false);
  return (
    <div role="alert">
      <PageHeader title="This page did not come" />
      <Empty title={again ? "It did not come this time either" : "A part of the dashboard could not be loaded"} action={
        <Button look="primary" onClick={() => loadAnew().catch(() => setAgain(true))}>Try again</Button>
      }>
        The service may be away, or it was upgraded since you opened the dashboard.
      </Empty>
    </div>
  );
}

/** Loads the dashboard anew once the service is there: many browsers never ask again for code that did not come. */
async function loadAnew(): Promise<void> {
  const page = await fetch(location.href, { cache: "no-store" });
  if (!page.ok) throw new Error(`the service answered ${page.status}`);
  location.reload();
}
