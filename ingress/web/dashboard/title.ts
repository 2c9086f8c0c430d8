// The window's title: the number of runs that wait for a decision, and the page's name.
import * as texts from "./texts/frame";
import { Words } from "./texts/frame";
let page = "";
let waiting = 0;

function show(): void {
  document.title = (waiting > 0 ? `(${formatBadge(waiting)}) ` : "") + (page === "" ? Words.parley : texts.pageParley(page));
}

/** Returns the text of a badge that shows a count: the number, or "99+" for larger numbers. */
export const formatBadge = (n: number): string => (n > 99 ? "99+" : String(n));

export function setPage(name: string): void {
  page = name;
  show();
}

export function setWaiting(n: number): void {
  if (n === waiting) return;
  waiting = n;
  show();
}
