// The API requests of a page or dialog, as curl commands behind one button.
import { createContext, type ComponentChildren } from "preact";
import { useContext, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useBaseUrl, useSession } from "../state";
import { Button } from "./button";
import { Snippet, curlOf, type Request } from "./copy";
import { Dialog } from "./dialog";

interface Call {
  what: string;
  request: Request;
}

/** The requests of the parts that are shown, and their listeners. */
class Calls {
  readonly shown = new Map<object, Call>();
  readonly listeners = new Set<() => void>();

  changed(): void {
    for (const listener of this.listeners) listener();
  }
}

const CallsContext = createContext(new Calls());

/** Collects the requests of its children. Its ApiButton shows them. */
export function ApiScope({ children }: { children: ComponentChildren }) {
  const [calls] = useState(() => new Calls());
  return <CallsContext.Provider value={calls}>{children}</CallsContext.Provider>;
}

/** Adds the request of an action to those that the page's or dialog's API button shows. Shows nothing itself. */
export function Curl({ request, what }: { request: Request; what: string }) {
  const calls = useContext(CallsContext);
  const key = useRef({}).current;
  useLayoutEffect(() => {
    const known = calls.shown.has(key);
    calls.shown.set(key, { request, what });
    if (!known) calls.changed();
  });
  useLayoutEffect(() => () => {
    calls.shown.delete(key);
    calls.changed();
  }, [calls]);
  return null;
}

/** Shows the requests of the page or dialog. */
export function ApiButton() {
  const calls = useContext(CallsContext);
  const [open, setOpen] = useState(false);
  const [any, setAny] = useState(false);
  useLayoutEffect(() => { // before painting, so that nothing moves
    const update = () => setAny(calls.shown.size > 0);
    update();
    calls.listeners.add(update);
    return () => void calls.listeners.delete(update);
  }, [calls]);
  if (!any) return null;
  return (
    <>
      <Button look="bare" icon="curl" label="API requests" onClick={() => setOpen(true)}>API</Button>
      {open && <Requests calls={[...calls.shown.values()]} onClose={() => setOpen(false)} />}
    </>
  );
}

function Requests({ calls, onClose }: { calls: Call[]; onClose: () => void }) {
  const baseUrl = useBaseUrl();
  const session = useSession();
  const uses = (credential: Request["credential"]) => calls.some((c) => (c.request.credential ?? "key") === credential);
  return (
    <Dialog title="API requests" onClose={onClose}>
      <div class="stack">
        {calls.map((c) => (
          <section key={c.what} class="stack tight">
            <h3>{c.what}</h3>
            <Snippet text={curlOf(c.request, baseUrl)} label={c.what} />
          </section>
        ))}
        {uses("session") && (
          <p class="hint">Set <code>PARLEY_SESSION</code> to the token that <code>POST /api/auth/login</code> returns.</p>
        )}
        {uses("key") && (
          <p class="hint">
            Set <code>PARLEY_API_KEY</code> to an API key of {session?.organization.name ?? "your organization"}.{" "}
            <a href="/dashboard/org">Create one under Organization</a>.
          </p>
        )}
        <p class="hint"><a href="/docs/api">API reference</a></p>
      </div>
    </Dialog>
  );
}
