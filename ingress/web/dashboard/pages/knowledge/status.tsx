import * as texts from "../../texts/knowledge";
import type { Document } from "../../types";
import { Status } from "../../ui/parts";

/** Shows a document's status, its progress, or its error. */
export function DocumentStatus({ of: d }: { of: Document }) {
  if (d.status === "failed") return <span class="standing"><Status of="failed" /> <span class="small quiet">{d.error?.message}</span></span>;
  if (d.status !== "processing" || d.pages === null || d.pages === 0) return <Status of={d.status} />;
  return (
    <span class="standing">
      <Status of="processing" />
      <progress value={d.pagesDone} max={d.pages} aria-label={texts.processedPagesOfName(d.name)} />
      <span class="small quiet number">{texts.pagesDoneOfPages(d.pagesDone, d.pages)}</span>
    </span>
  );
}
