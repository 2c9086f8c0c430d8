// A button that shows an action as a curl command.
import { useState } from "preact/hooks";
import { useBaseUrl, useSession } from "../state";
import { Button } from "./button";
import { Snippet, curlOf, type Request } from "./copy";
import { Dialog } from "./dialog";

/** Shows the command for the action of the button next to it. */
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
              <p class="hint">This request needs a session token. Set <code>PARLEY_SESSION</code> to the token that <code>POST /api/auth/login</code> returns.</p>
            )}
            {(request.credential ?? "key") === "key" && (
              <p class="hint">
                Set <code>PARLEY_API_KEY</code> to an API key of {session?.organization.name ?? "your organization"}.{" "}
                <a href="/dashboard/org">Create one under Organization</a>.
              </p>
            )}
          </div>
        </Dialog>
      )}
    </>
  );
}
