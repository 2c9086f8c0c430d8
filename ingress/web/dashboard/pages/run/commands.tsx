// The requests of a run as curl commands.
import { useBaseUrl, useSession } from "../../state";
import type { Run } from "../../types";
import { curlOf, Snippet } from "../../ui/copy";
import { ended } from "../runs/times";

export function Commands({ run }: { run: Run }) {
  const baseUrl = useBaseUrl();
  const session = useSession();
  const read = curlOf({ method: "GET", path: "/api/runs", params: { id: run.id } }, baseUrl);
  const watch = curlOf({ method: "GET", path: "/api/runs", params: { id: run.id, stream: 1 } }, baseUrl).replace("curl ", "curl -N ");
  const cancel = curlOf({ method: "POST", path: "/api/runs", params: { id: run.id, action: "cancel" } }, baseUrl);
  return (
    <details class="fold">
      <summary>Copy as curl</summary>
      <div class="stack">
        <div><h3>Read the run</h3><Snippet text={read} label="the command that reads this run" /></div>
        <div><h3>Follow the run</h3><Snippet text={watch} label="the command that follows this run" /></div>
        {!ended(run) && <div><h3>Cancel the run</h3><Snippet text={cancel} label="the command that cancels this run" /></div>}
        <p class="hint">
          Set <code>PARLEY_API_KEY</code> to an API key of {session?.organization.name ?? "your organization"}.{" "}
          <a href="/dashboard/org">Create one under Organization</a>.
        </p>
      </div>
    </details>
  );
}
