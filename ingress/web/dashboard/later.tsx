// Pages whose code comes when somebody first goes to one of them, so that the others are there sooner.
import type { ComponentType } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Button } from "./ui/button";
import { Empty, PageHeader, Waiting } from "./ui/parts";

type Shown = ComponentType<Record<string, string>>;

/**
 * Gives what makes a page of pages that come together: it stands in for the page until load has brought them, and shows it
 * at once from then on. When they do not come, they can be asked for again.
 */
export function later<Pages>(load: () => Promise<Pages>): (pick: (pages: Pages) => Shown) => Shown {
  let pages: Pages | null = null;
  const bring = async () => {
    pages ??= await load();
  };
  return (pick) => function Later(params: Record<string, string>) {
    const [missing, setMissing] = useState(false);
    const [, redraw] = useState(0);
    const here = useRef(true);
    const show = () => redraw((n) => n + 1);
    useEffect(() => {
      if (pages === null) bring().then(() => here.current && show(), () => here.current && setMissing(true));
      return () => {
        here.current = false;
      };
    }, []);
    if (pages !== null) {
      const Page = pick(pages);
      return <Page {...params} />;
    }
    if (!missing) return <Waiting />;
    const retry = async () => {
      await bring();
      if (!here.current) return;
      show();
      document.getElementById("content")?.focus(); // the button that had the focus goes
    };
    return <Missing retry={retry} />;
  };
}

function Missing({ retry }: { retry: () => Promise<void> }) {
  const [again, setAgain] = useState(false);
  return (
    <div role="alert">
      <PageHeader title="This page did not come" />
      <Empty title={again ? "It did not come this time either" : "A part of the dashboard could not be loaded"} action={
        <div class="row">
          <Button look="primary" onClick={() => retry().catch(() => setAgain(true))}>Try again</Button>
          <Button onClick={() => location.reload()}>Load the dashboard anew</Button>
        </div>
      }>
        The service may be away, or it was upgraded since you opened the dashboard: then load it anew.
      </Empty>
    </div>
  );
}
