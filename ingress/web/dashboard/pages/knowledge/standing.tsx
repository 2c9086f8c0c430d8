import type { Document } from "../../types";
import { Status } from "../../ui/parts";

/** Where a document stands: how far it is read, or why it could not be. */
export function Standing({ of: d }: { of: Document }) {
  if (d.status === "failed") return <span class="standing"><Status of="failed" /> <span class="small quiet">{d.error?.message}</span></span>;
  if (d.status !== "processing" || d.pages === null || d.pages === 0) return <Status of={d.status} />;
  return (
    <span class="standing">
      <Status of="processing" />
      <progress value={d.pagesDone} max={d.pages} aria-label={`Pages of ${d.name} that are read`} />
      <span class="small quiet number">{d.pagesDone} of {d.pages}</span>
    </span>
  );
}
