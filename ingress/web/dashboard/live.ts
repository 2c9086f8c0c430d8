// What changes in the organization, told by the service: one stream for the whole page, opened while somebody listens.
import { useEffect, useRef } from "preact/hooks";
import { address, credentials, identity, inDemo } from "./api";
import { events } from "../kit/sse";

export type Kind = "runs" | "documents";

const listeners = new Map<Kind, Set<() => void>>([["runs", new Set()], ["documents", new Set()]]);
let open: AbortController | null = null;

function listening(): boolean {
  return [...listeners.values()].some((set) => set.size > 0);
}

async function follow(stop: AbortSignal): Promise<void> {
  try {
    const stream = events(address("/api/events"), { headers: identity, credentials: credentials(), signal: stop, resume: true });
    for await (const event of stream) {
      for (const tell of listeners.get(event.event as Kind) ?? []) tell();
    }
  } catch {
    // refused for good, such as for too many streams: pages stay as they are until they are read again
  }
}

function arrange(): void {
  if (listening() && open === null && !inDemo()) {
    open = new AbortController();
    const mine = open;
    void follow(mine.signal).finally(() => {
      if (open === mine) open = null;
    });
  }
  if (!listening() && open !== null) {
    open.abort();
    open = null;
  }
}

const pace = 1000; // milliseconds between two readings

/** Calls reload when something of the kind has changed, not more often than the pace and not while the page is hidden. */
export function useLive(kind: Kind, reload: () => void): void {
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
    const tell = () => {
      timer ??= setTimeout(run, Math.max(0, last + pace - Date.now()));
    };
    const shown = () => {
      if (!document.hidden && missed) {
        missed = false;
        tell();
      }
    };
    listeners.get(kind)?.add(tell);
    document.addEventListener("visibilitychange", shown);
    arrange();
    return () => {
      clearTimeout(timer);
      listeners.get(kind)?.delete(tell);
      document.removeEventListener("visibilitychange", shown);
      setTimeout(arrange, 0); // the next page may listen at once
    };
  }, [kind]);
}
