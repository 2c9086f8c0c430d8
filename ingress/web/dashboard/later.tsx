// Pages whose code is loaded on the first visit, so that the other pages load faster.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Button } from "./ui/button";
import { Empty, PageHeader, Waiting } from "./ui/parts";

type Shown = ComponentType<Record<string, string>>;

/**
 * Returns a function that makes components for pages that share a bundle. Each component loads the
 * bundle when it is first shown, and then renders its page.
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
      bring().then(done, done); // the bundle may have arrived since this was rendered
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
      <PageHeader title="Couldn't load this page" />
      <Empty title={again ? "Still couldn't load" : "Part of the dashboard couldn't be loaded"} action={
        <Button look="primary" onClick={() => loadAnew().catch(() => setAgain(true))}>Try again</Button>
      }>
        The service may be down, or was upgraded after you opened the dashboard. Check the connection and try again.
      </Empty>
    </div>
  );
}

/**
 * Reloads the dashboard if the service responds. A reload is needed, because many browsers never
 * request failed code again.
 */
async function loadAnew(): Promise<void> {
  const page = await fetch(location.href, { cache: "no-store" });
  if (!page.ok) throw new Error(`the service responded with status ${page.status}`);
  location.reload();
}
