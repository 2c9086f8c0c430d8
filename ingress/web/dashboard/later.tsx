// Pages and parts of pages whose code is loaded on the first visit, so that the other pages load
// faster.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import * as texts from "./texts/frame";
import { Words } from "./texts/frame";
import { Button } from "./ui/button";
import { Empty, PageHeader, Loading } from "./ui/parts";

/**
 * Returns a function that makes components for pages that share a bundle. Each component loads the
 * bundle when it is first shown, and then renders its page. For a part of a page, within must be
 * true: an error message then has no page header, because the page already has one.
 */
export function later<Pages>(load: () => Promise<Pages>, { within = false } = {}): <Props = Record<string, string>>(pick: (pages: Pages) => ComponentType<Props>) => ComponentType<Props> {
  let pages: Pages | null = null;
  const loadPages = async () => {
    pages ??= await load();
  };
  return (pick) => function Later(params) {
    const [tried, setTried] = useState(false);
    useEffect(() => {
      let here = true;
      const done = () => here && setTried(true);
      loadPages().then(done, done); // the bundle may have loaded since the component was rendered
      return () => {
        here = false;
      };
    }, []);
    if (pages !== null) {
      const Page = pick(pages);
      return <Page {...params} />;
    }
    return tried ? <LoadError within={within} /> : <Loading />;
  };
}

function LoadError({ within }: { within: boolean }) {
  const [again, setAgain] = useState(false);
  return (
    <div role="alert">
      {!within && <PageHeader title={Words.couldntLoadThisPage} />}
      <Empty title={again ? Words.stillCouldntLoad : Words.partOfDashboardCouldnt} action={
        <Button look="primary" onClick={() => reloadPage().catch(() => setAgain(true))}>{Words.tryAgain}</Button>
      }>
        {Words.serviceMayBeDown}
      </Empty>
    </div>
  );
}

/**
 * Reloads the page if the service responds. The reload is necessary, because many browsers never
 * request a script again after it has failed to load.
 */
async function reloadPage(): Promise<void> {
  const page = await fetch(location.href, { cache: "no-store" });
  if (!page.ok) throw new Error(texts.theServiceResponded(page.status));
  location.reload();
}
