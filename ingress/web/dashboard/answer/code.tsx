// Code and data to read and to take away.
import { h, type ComponentChildren, type VNode } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Make } from "../../kit/markdown";
import { Copy } from "../ui/copy";

type Highlight = (make: Make<VNode>, text: string, language: string) => ComponentChildren;

/** The page names the address of what knows the languages: a bundle of its own, of which the dashboard holds nothing. */
const bundle = (): string => document.getElementById("app")?.dataset["highlight"] ?? "";

/** Makes Preact's nodes of what the kit describes. */
export const make: Make<VNode> = (tag, props, ...children) => h(tag, props, ...children);

let highlight: Highlight | null = null;
let coming: Promise<void> | null = null;

/** Fetches what knows the languages, once somebody looks at code. */
async function fetchHighlight(): Promise<void> {
  coming ??= (import(bundle()) as Promise<typeof import("../../kit/highlight")>).then((kit) => {
    highlight = kit.highlight;
  });
  await coming;
}

/** Data as people read it. */
export const json = (value: unknown): string => JSON.stringify(value, null, 2) ?? "";

/** A block of code, its words coloured once what knows how is there; open: more of it is to come. */
export function Code({ text, language = "", label, open }: { text: string; language?: string; label: string; open?: boolean }) {
  const colours = useHighlight(language !== "" && !open);
  const shown = useMemo(() => colours?.(make, text, language) ?? text, [colours, text, language]);
  return (
    <div class="copyable code-box">
      <pre class="block" tabIndex={0} role="group" aria-label={label} dir="ltr"><code>{shown}</code></pre>
      {!open && <Copy text={text} label={`Copy: ${label}`} words="" />}
    </div>
  );
}

function useHighlight(wanted: boolean): Highlight | null {
  const [, loaded] = useState(highlight !== null);
  useEffect(() => {
    if (!wanted || highlight !== null) return;
    let gone = false;
    void fetchHighlight().then(
      () => { if (!gone) loaded(true); },
      () => { coming = null; }, // plain it stays readable; the next block tries again
    );
    return () => {
      gone = true;
    };
  }, [wanted]);
  return wanted ? highlight : null;
}
