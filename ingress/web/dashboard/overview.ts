// The overview of the organization. The navigation loads it once for all pages and keeps it current.
import { useEffect, useState } from "preact/hooks";
import { get, type ApiError } from "./api";
import { useComeback, useLive } from "./live";
import { setWaiting } from "./title";
import type { Overview } from "./types";

interface Known {
  data: Overview | undefined;
  error: ApiError | undefined;
}

let known: Known = { data: undefined, error: undefined };
let loading: Promise<void> | null = null;
let again: ReturnType<typeof setTimeout> | undefined;
const changed = new EventTarget();
const pace = 5000; // minimum milliseconds between two loads; a change of any kind causes a load
const hiddenPace = 60_000; // milliseconds between two loads while the page is hidden and gets no events

/**
 * Loads the overview. Calls during a load share that load. Its data may be older than the change
 * that caused such a call, so the overview is loaded again after a while.
 */
export function reloadOverview(): Promise<void> {
  if (loading !== null) {
    again ??= setTimeout(() => {
      again = undefined;
      void reloadOverview();
    }, pace);
  }
  loading ??= get<Overview>("/api/home").then(
    (data) => { known = { data, error: undefined }; },
    (error: ApiError) => { known = { data: known.data, error }; },
  ).finally(() => {
    loading = null;
    setWaiting(known.data?.approvals ?? 0);
    changed.dispatchEvent(new Event("change"));
  });
  return loading;
}

/** Returns the overview that was loaded last. */
export function useOverview(): Known {
  const [, redraw] = useState(known);
  useEffect(() => {
    const update = () => redraw(known);
    update();
    changed.addEventListener("change", update);
    return () => changed.removeEventListener("change", update);
  }, []);
  return known;
}

/** Loads the overview and keeps it current while the component is shown. */
export function useCurrentOverview(): Known {
  const now = useOverview();
  const reload = () => void reloadOverview();
  useEffect(reload, []);
  useLive("runs", reload, pace);
  useLive("documents", reload, pace);
  useLive("notifications", reload, pace);
  useComeback(now.error, reload);
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.hidden) reload(); // the window's title shows the number of waiting runs even while the page is hidden
    }, hiddenPace);
    return () => clearInterval(timer);
  }, []);
  return now;
}
