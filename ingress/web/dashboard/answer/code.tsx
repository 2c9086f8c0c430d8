// Blocks of code and JSON, with highlighting and a copy button.
import { h, type ComponentChildren, type VNode } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Make } from "../../kit/markdown";
import * as texts from "../texts/answer";
import { Copy } from "../ui/copy";

type Highlight = (make: Make<VNode>, text: string, language: string) => ComponentChildren;

/** Returns the URL of the highlighter, which is a bundle separate from the dashboard's. */
const bundle = (): string => document.getElementById("app")?.dataset["highlight"] ?? "";

/** Builds Preact nodes from the node descriptions that the kit returns. */
export const make: Make<VNode> = (tag, props, ...children) => h(tag, props, ...children);

let highlight: Highlight | null = null;
let highlightLoad: Promise<void> | null = null;

/** Loads the highlighter. Only pages that show code need it. */
async function fetchHighlight(): Promise<void> {
  highlightLoad ??= (import(bundle()) as Promise<typeof import("../../kit/highlight")>).then((kit) => {
    highlight = kit.highlight;
  });
  await highlightLoad;
}

/** Formats a value as indented JSON. */
export const json = (value: unknown): string => JSON.stringify(value, null, 2) ?? "";

/**
 * Shows a block of code, highlighted once the highlighter has loaded. If open is true, the code is
 * still incomplete, so there is no copy button yet.
 */
export function Code({ text, language = "", label, open }: { text: string; language?: string; label: string; open?: boolean }) {
  const colours = useHighlight(language !== "" && !open);
  const shown = useMemo(() => colours?.(make, text, language) ?? text, [colours, text, language]);
  return (
    <div class="copyable code-box">
      <pre class="block" tabIndex={0} role="group" aria-label={label} dir="ltr"><code>{shown}</code></pre>
      {!open && <Copy text={text} label={texts.copyLabel(label)} words="" />}
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
      () => { highlightLoad = null; }, // if the highlighter cannot be loaded, the text is readable without colours, and the next block tries to load it again
    );
    return () => {
      gone = true;
    };
  }, [wanted]);
  return wanted ? highlight : null;
}
