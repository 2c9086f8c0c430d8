// A run's requests as commands.
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
        <div><h3>Read it</h3><Snippet text={read} label="the command that reads this run" /></div>
        <div><h3>Watch it</h3><Snippet text={watch} label="the command that watches this run" /></div>
        {!ended(run) && <div><h3>Cancel it</h3><Snippet text={cancel} label="the command that cancels this run" /></div>}
        <p class="hint">
          Put an API key of {session?.organization.name ?? "your organization"} into <code>PARLEY_API_KEY</code>;{" "}
          <a href="/dashboard/org">make one under Organization</a>.
        </p>
      </div>
    </details>
  );
}
