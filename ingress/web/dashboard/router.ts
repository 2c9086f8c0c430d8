// Maps URLs to pages. Links between the dashboard's pages are followed without reloading the
// dashboard. The browser's Back button shows a page at the position to which it was scrolled.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { entryState, fromPage, noteEntry, onPopState, type EntryState } from "./panels";

export interface Route {
  path: string;
  query: URLSearchParams;
}

const here = (): Route => ({ path: location.pathname.replace(/\/+$/, "") || "/", query: new URLSearchParams(location.search) });
const changed = new EventTarget();

/**
 * Returns true if the page may be left for the given URL. Otherwise it asks the person, returns
 * false, and calls leave if the person agrees.
 */
type Guard = (to: string, leave: () => void) => boolean;

let guard: Guard | null = null;

/**
 * While on is true, calls the function asks before the dashboard shows another page, and makes the
 * browser ask before the dashboard itself is left.
 */
export function useGuard(on: boolean, asks: Guard): void {
  const now = useRef(asks);
  now.current = asks;
  useStay(on);
  useLayoutEffect(() => {
    if (!on) return;
    const own: Guard = (to, leave) => now.current(to, leave);
    guard = own;
    return () => {
      if (guard === own) guard = null;
    };
  }, [on]);
}

/**
 * Makes the browser ask before the dashboard is left, while on is true. It uses a layout effect,
 * because an ordinary effect would end only after the next page is painted. A person who leaves
 * that page immediately would still be asked.
 */
export function useStay(on: boolean): void {
  useLayoutEffect(() => {
    if (!on) return;
    const stay = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener("beforeunload", stay);
    return () => removeEventListener("beforeunload", stay);
  }, [on]);
}

/** Shows a page of the dashboard. */
export function go(to: string, options: { replace?: boolean; keepScroll?: boolean } = {}): void {
  const act = () => (options.keepScroll ? show(to, options) : fromPage(() => show(to, options)));
  if (guard === null || options.replace || guard(to, act)) act();
}

function show(to: string, options: { replace?: boolean; keepScroll?: boolean }): void {
  if (options.keepScroll) history.replaceState(history.state, "", to);
  else {
    if (wanted === 0) keepPosition();
    history[options.replace ? "replaceState" : "pushState"]({ top: 0 }, "", to);
    restore(0);
  }
  noteEntry(history.state as EntryState | null);
  changed.dispatchEvent(new Event("change"));
}

let wanted = 0; // the position to which the page is to be scrolled as soon as it is long enough, or 0
let timer: ReturnType<typeof setTimeout> | undefined;

/** Reports whether the page is shown again, and is to be scrolled to its earlier position. */
export const isReturning = (): boolean => wanted > 0;

/** Stores the position to which the page is scrolled in the state of its history entry. */
function keepPosition(): void {
  clearTimeout(timer);
  history.replaceState(entryState(scrollY), "");
}

function restore(top: number): void {
  clearTimeout(timer);
  wanted = top;
  scrollTo(0, top);
}

/** Ends the restoration of the page's position. A page that scrolls by itself calls it. */
export const stopRestoring = (): void => {
  wanted = 0;
};

// The data of a page may load after the page was drawn, so the position is restored whenever the
// page grows: until the page has reached it and has not grown for a second, or until the person
// uses the page.
new ResizeObserver(() => {
  if (wanted === 0) return;
  scrollTo(0, wanted);
  clearTimeout(timer);
  if (scrollY > wanted - 1) timer = setTimeout(stopRestoring, 1000);
}).observe(document.documentElement);
for (const type of ["wheel", "pointerdown", "keydown"]) addEventListener(type, stopRestoring, { passive: true });

addEventListener("scroll", () => {
  if (wanted > 0) return;
  clearTimeout(timer);
  timer = setTimeout(keepPosition, 100); // browsers limit how often the state may change
}, { passive: true });

history.scrollRestoration = "manual"; // the browser would not wait for the data
if (history.state) restore(history.state.top); // after a reload
else keepPosition();

/** Changes query parameters in the page's URL. The value null removes a parameter. */
export function setQuery(params: Record<string, string | null>): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(params)) {
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  go(location.pathname + (text === "" ? "" : "?" + text), { replace: true, keepScroll: true });
}

function follow(event: MouseEvent): void {
  const link = (event.target as Element | null)?.closest?.("a");
  if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (link.target || link.hasAttribute("download") || link.origin !== location.origin || !/^\/dashboard(\/|$)/.test(link.pathname)) return;
  if (link.pathname === location.pathname && link.hash) return; // the link leads to another part of the same page
  event.preventDefault();
  go(link.pathname + link.search + link.hash);
}

addEventListener("popstate", (event) => {
  const state = event.state as EntryState | null;
  if (onPopState(state)) return;
  noteEntry(state);
  changed.dispatchEvent(new Event("change"));
  if (state) restore(state.top); // a link to a part of the page makes an entry without state
});
document.addEventListener("click", follow);

/** Returns the current path and query. */
export function useRoute(): Route {
  const [route, setRoute] = useState(here);
  useLayoutEffect(() => { // an ordinary effect would start after painting, and miss a navigation before that
    const update = () => setRoute(here());
    changed.addEventListener("change", update);
    return () => changed.removeEventListener("change", update);
  }, []);
  return route;
}

/**
 * Returns the parameters in a path that matches a pattern such as /dashboard/runs/:id, or null if
 * the path does not match.
 */
export function match(pattern: string, path: string): Record<string, string> | null {
  const want = pattern.split("/");
  const have = path.split("/");
  if (want.length !== have.length) return null;
  const found: Record<string, string> = {};
  for (const [i, part] of want.entries()) {
    const value = have[i] ?? "";
    if (part.startsWith(":")) {
      try {
        found[part.slice(1)] = decodeURIComponent(value);
      } catch {
        return null;
      }
      if (value === "") return null;
    } else if (part !== value) return null;
  }
  return found;
}
