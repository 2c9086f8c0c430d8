// Each action as a command.
import { useState } from "preact/hooks";
import { useBaseUrl, useSession } from "../state";
import { Button } from "./button";
import { Snippet, curlOf, type Request } from "./copy";
import { Dialog } from "./dialog";

/** "Copy as curl": shows the command for what a button beside it does. */
export function Curl({ request, what, words = "curl" }: { request: Request; what: string; words?: string }) {
  const [open, setOpen] = useState(false);
  const baseUrl = useBaseUrl();
  const session = useSession();
  return (
    <>
      <Button look="bare" icon="curl" label={`Copy as curl: ${what}`} onClick={() => setOpen(true)}>{words}</Button>
      {open && (
        <Dialog title={`${what}, with curl`} onClose={() => setOpen(false)}>
          <div class="stack">
            <Snippet text={curlOf(request, baseUrl)} label="the command" />
            {request.credential === "session" && (
              <p class="hint">This is a person’s own: put the token that <code>POST /api/auth/login</code> answers with into <code>PARLEY_SESSION</code>.</p>
            )}
            {(request.credential ?? "key") === "key" && (
              <p class="hint">
                Put an API key of {session?.organization.name ?? "your organization"} into <code>PARLEY_API_KEY</code>;{" "}
                <a href="/dashboard/org">make one under Organization</a>.
              </p>
            )}
          </div>
        </Dialog>
      )}
    </>
  );
}
