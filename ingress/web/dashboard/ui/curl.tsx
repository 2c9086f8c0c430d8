// The API requests of a page or dialog as curl commands, which one button shows.
import { createContext, type ComponentChildren } from "preact";
import { useContext, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Words } from "../texts/parts";
import { Button } from "./button";
import type { Request } from "./copy";

export interface Call {
  what: string;
  request: Request;
}

/** The API requests of the parts that are shown. It notifies listeners of changes. */
class Calls {
  readonly shown = new Map<object, Call>();
  readonly listeners = new Set<() => void>();

  changed(): void {
    for (const listener of this.listeners) listener();
  }
}

const CallsContext = createContext(new Calls());

/** Collects the API requests of its children for its ApiButton. */
export function ApiScope({ children }: { children: ComponentChildren }) {
  const [calls] = useState(() => new Calls());
  return <CallsContext.Provider value={calls}>{children}</CallsContext.Provider>;
}

/**
 * Adds the request of an action to those that the API button of the page or dialog shows. It
 * renders nothing.
 */
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

/** Shows the requests of the page or dialog, if it has any. */
export function ApiButton() {
  const calls = useContext(CallsContext);
  const [any, setAny] = useState(false);
  useLayoutEffect(() => { // before painting, so that nothing visibly moves
    const update = () => setAny(calls.shown.size > 0);
    update();
    calls.listeners.add(update);
    return () => void calls.listeners.delete(update);
  }, [calls]);
  if (!any) return null;
  return <Button look="bare" icon="curl" label={Words.apiRequests} onClick={() => show([...calls.shown.values()])}>{Words.api}</Button>;
}

let asked: Call[] | null = null;
const changes = new EventTarget();

/** Opens the dialog with the given requests. The value null closes the dialog. */
export function show(calls: Call[] | null): void {
  asked = calls;
  changes.dispatchEvent(new Event("change"));
}

/** Returns the requests that the dialog must show, or null. */
export function useAsked(): Call[] | null {
  const [, redraw] = useState(0);
  useEffect(() => {
    const update = () => redraw((n) => n + 1);
    changes.addEventListener("change", update);
    return () => changes.removeEventListener("change", update);
  }, []);
  return asked;
}
