// Changes in the organization, pushed by the service. All listeners of a page share one stream,
// which is open while there are listeners.
import { useEffect, useRef, useState } from "preact/hooks";
import { address, credentials, identity, inDemo, type ApiError } from "./api";
import { events } from "../kit/sse";

export type Kind = "runs" | "documents" | "notifications";

const listeners = new Map<Kind, Set<() => void>>([["runs", new Set()], ["documents", new Set()], ["notifications", new Set()]]);
const disconnected = new Set<() => void>(); // functions that repeat requests that failed because the service was unreachable
const changed = new EventTarget();
const refusedPause = 60_000; // milliseconds until a stream that the service refused is requested again
const retryInterval = 15_000; // milliseconds between retries of a failed request while the stream delivers no event
let open: AbortController | null = null;
let up = true;

// A browser opens about six connections to a server without HTTP/2, shared by all its windows. A
// hidden page therefore closes its stream after a while. When the page is shown again, all
// listeners are notified.
const hiddenTimeout = 60_000; // milliseconds for which the stream of a hidden page stays open
let paused = document.hidden;
let pauseTimer: ReturnType<typeof setTimeout> | undefined;

document.addEventListener("visibilitychange", () => {
  clearTimeout(pauseTimer);
  if (document.hidden) pauseTimer = setTimeout(() => setPaused(true), hiddenTimeout);
  else setPaused(false);
});

function setPaused(now: boolean): void {
  paused = now;
  arrange();
}

function needsStream(): boolean {
  return !paused && (disconnected.size > 0 || [...listeners.values()].some((set) => set.size > 0));
}

function setUp(now: boolean): void {
  if (up === now) return;
  up = now;
  changed.dispatchEvent(new Event("change"));
}

/**
 * Notifies all listeners when the connection is restored. Anything may have changed, and failed
 * requests may now succeed.
 */
function back(): void {
  setUp(true);
  for (const listener of [...disconnected, ...[...listeners.values()].flatMap((set) => [...set])]) listener();
}

async function follow(stop: AbortSignal): Promise<void> {
  try {
    const connected = (is: boolean) => (is ? back() : setUp(false));
    const stream = events(address("/api/events"), { headers: identity, credentials: credentials(), signal: stop, resume: true, connected });
    for await (const event of stream) {
      for (const listener of listeners.get(event.event as Kind) ?? []) listener();
    }
  } catch {
    setUp(false); // refused by the service, for example because the session ended; pages keep their data
  }
}

function arrange(): void {
  if (needsStream() && open === null && !inDemo()) {
    open = new AbortController();
    const mine = open;
    void follow(mine.signal).finally(() => {
      if (open !== mine) return;
      open = null;
      setTimeout(arrange, refusedPause);
    });
  }
  if (!needsStream() && open !== null) {
    open.abort();
    open = null;
    setUp(true); // the page closed the stream itself, so this is no failure
  }
}

const defaultPace = 1000; // minimum milliseconds between two calls of the same listener

/**
 * Calls reload when an object of the kind has changed. It does so at most once in the given number
 * of milliseconds, and not while the page is hidden.
 */
export function useLive(kind: Kind, reload: () => void, pace = defaultPace): void {
  const call = useRef(reload);
  call.current = reload;
  useEffect(() => {
    let last = 0;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let missed = false;
    const run = () => {
      timer = undefined;
      if (document.hidden) {
        missed = true;
        return;
      }
      last = Date.now();
      call.current();
    };

    const schedule = () => {
      timer ??= setTimeout(run, Math.max(0, last + pace - Date.now()));
    };

    const shown = () => {
      if (!document.hidden && missed) {
        missed = false;
        schedule();
      }
    };

    listeners.get(kind)?.add(schedule);
    document.addEventListener("visibilitychange", shown);
    arrange();

    return () => {
      clearTimeout(timer);
      listeners.get(kind)?.delete(schedule);
      document.removeEventListener("visibilitychange", shown);
      setTimeout(arrange, 0); // the next page may begin to listen immediately
    };
  }, [kind]);
}

/** Returns whether the stream of changes is connected, as far as the page knows. */
export function useConnected(): boolean {
  const [is, setIs] = useState(up);
  useEffect(() => {
    const update = () => setIs(up);
    update();
    changed.addEventListener("change", update);
    return () => changed.removeEventListener("change", update);
  }, []);
  return is;
}

/**
 * Calls reload when the service works again, if the argument error shows that the service was
 * unreachable or failed.
 */
export function useComeback(error: ApiError | undefined, reload: () => void): void {
  const call = useRef(reload);
  call.current = reload;
  const away = error !== undefined && (error.status === 0 || error.status >= 500);
  useEffect(() => {
    if (!away) return;
    const retry = () => call.current();
    disconnected.add(retry);
    addEventListener("online", retry);
    arrange();
    const timer = setInterval(() => { // retries even if the stream remains connected and delivers no event
      if (!document.hidden) retry();
    }, retryInterval);
    return () => {
      clearInterval(timer);
      disconnected.delete(retry);
      removeEventListener("online", retry);
      setTimeout(arrange, 0); // the next request may fail immediately
    };
  }, [away]);
}
