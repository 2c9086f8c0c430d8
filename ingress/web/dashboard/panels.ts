// The history entries of open dialogs and panels. Each open dialog has an entry after that of its
// page, so that the browser's Back button closes the dialog instead of leaving the page.
import { useLayoutEffect, useRef } from "preact/hooks";

/** The state of a history entry. */
export interface EntryState {
  /** The position to which the page is scrolled. */
  top: number;
  /** The number of open dialogs. */
  panels?: number;
}

type Close = () => void;

const open: Close[] = []; // the functions that close the open dialogs, in the order in which the dialogs were opened
const waiting: (() => void)[] = []; // the navigations to begin when the current entry is that of the page
const patience = 3000; // milliseconds to wait for the entry of a page that was loaded with an open dialog

let entries = 0; // number of open dialogs that the current entry of the browser's history records
let url = location.href; // the page's URL before the current entry changed
let moving = false; // whether this module has begun to move in the history, and popstate has not been dispatched yet
let leaving = false; // whether another document is being loaded
let timer: ReturnType<typeof setTimeout> | undefined;

/** Returns the state of the current entry if the page is scrolled to top. */
export const entryState = (top: number): EntryState => (entries === 0 ? { top } : { top, panels: entries });

/** Notes that the current entry is that of another page, or has another URL. */
export function noteEntry(state: EntryState | null): void {
  entries = state?.panels ?? 0;
  url = location.href;
}

/**
 * Gives the calling component a history entry while it is mounted. The Back button calls close,
 * which may ask the person and keep the component open. If on is false, the component has no entry
 * of its own, because the page's URL has opened it.
 */
export function useBack(close: Close, on = true): void {
  const now = useRef(close);
  now.current = close;
  useLayoutEffect(() => {
    if (!on) return;
    const own = () => now.current();
    open.push(own);
    leaving = false;
    scheduleSync();
    return () => {
      open.splice(open.indexOf(own), 1);
      scheduleSync();
    };
  }, []);
}

/** Calls sync once for all dialogs that open and close in the same task. */
function scheduleSync(): void {
  timer ??= setTimeout(() => {
    timer = undefined;
    sync();
  });
}

/** Adds or removes history entries, until there is one for each open dialog. */
function sync(): void {
  if (moving || leaving) return;
  if (entries > open.length) move(open.length - entries);
  if (entries < open.length) history.replaceState(entryState(scrollY), "");
  while (entries < open.length) {
    entries++;
    history.pushState(entryState(scrollY), "");
  }
}

function move(by: number): void {
  moving = true;
  history.go(by);
}

/** Calls act when the current entry is that of the page and not that of a dialog. */
export function fromPage(act: () => void): void {
  if (!moving && entries === 0) return act();
  waiting.push(act);
  if (!moving) move(-entries);
}

/** Leaves the dashboard for a URL. Without a URL, loads the dashboard again. */
export function leave(to?: string): void {
  fromPage(() => {
    leaving = true; // moving in the history would stop the loading
    if (to === undefined) location.reload();
    else location.assign(to);
  });
}

/**
 * Handles a change of the current history entry. Returns true if the page stays, and only dialogs
 * open or close.
 */
export function onPopState(state: EntryState | null): boolean {
  const before = entries;
  const stays = state !== null && location.pathname === new URL(url).pathname; // a link to a part of the page creates an entry without state
  const back = stays && (state.panels ?? 0) < before;
  const forward = stays && (state.panels ?? 0) > before; // whether the move leads to the entry of a closed dialog
  entries = state?.panels ?? 0;
  scheduleSync();
  if (moving) {
    finishMove();
    return true;
  }
  if (!back && !forward) return false;

  keepURL();
  if (back) for (const close of open.slice(entries).reverse()) close();
  return true;
}

/** Ends a move that this module has begun, and starts the navigations that wait for it. */
function finishMove(): void {
  moving = false;
  keepURL();
  if (entries > 0 && waiting.length > 0) return move(-entries);
  for (const act of waiting.splice(0)) act();
}

/** Sets the page's URL, which may have changed while a dialog was open, in the current entry. */
const keepURL = (): void => history.replaceState(entryState(scrollY), "", url);

/**
 * Leaves the entry of a dialog that was open when the page was loaded. If the browser has no entry
 * before it, for example in a restored window, the entry becomes that of the page.
 */
function start(): void {
  noteEntry(history.state as EntryState | null);
  if (entries === 0) return;
  move(-entries);
  setTimeout(() => {
    if (!moving) return;
    entries = 0;
    finishMove();
  }, patience);
}

start();
