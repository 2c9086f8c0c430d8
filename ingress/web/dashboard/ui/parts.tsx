// Small components that most pages use.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useState } from "preact/hooks";
import type { ApiError } from "../api";
import * as texts from "../texts/parts";
import { Words } from "../texts/parts";
import { statuses, wordFor } from "../texts/values";
import { setPage } from "../title";
import type { RunStatus } from "../types";
import { Button } from "./button";
import { ApiButton } from "./curl";
import { HeadButtons } from "./head";

/**
 * The header of a page. It contains the page's only h1, whose text is also the window's title. The
 * property guide names the documentation page about the subject, for example "webhooks".
 */
export function PageHeader({ title, above, children, actions, guide, compact }: {
  title: string; above?: ComponentChildren; children?: ComponentChildren; actions?: ComponentChildren; guide?: string;
  /** Whether a phone hides the text below the title until a button is pressed, so that the content begins higher. */
  compact?: boolean;
}) {
  const [open, setOpen] = useState(false);
  useEffect(() => {
    setPage(title);
  }, [title]);
  return (
    <header class={"page-header" + (compact ? (open ? " compact" : " compact folded") : "")}>
      <div>
        {above && <p class="above">{above}</p>}
        <h1>{title}</h1>
        {compact && <HeadButtons />}
        {(children || guide) && <p>{children} {guide && <a href={"/docs/" + guide}>{Words.readTheGuide}</a>}</p>}
      </div>
      <div class="actions"><span class="api">{compact && <span class="details"><Button look="bare" icon={open ? "up" : "down"} expanded={open} onClick={() => setOpen(!open)}>{Words.details}</Button></span>}<ApiButton /></span>{actions}</div>
    </header>
  );
}

/** A section of a page, with its heading. */
export function Section({ title, children, intro, actions }: { title: string; intro?: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren }) {
  const id = useId();
  return (
    <section class="sheet" aria-labelledby={id}>
      {actions ? <div class="row between"><h2 id={id}>{title}</h2><div class="actions">{actions}</div></div> : <h2 id={id}>{title}</h2>}
      {intro && <p class="quiet">{intro}</p>}
      {children}
    </section>
  );
}

const tones: Record<string, "good" | "busy" | "warn" | "bad" | ""> = {
  completed: "good", ready: "good", running: "busy", processing: "busy", queued: "", requires_action: "warn", waiting: "warn", waits_for_client: "busy",
  failed: "bad", timed_out: "bad", lost: "bad", cancelled: "",
  accepted: "good", coalesced: "good", delivered: "good", enabled: "good", filtered: "", answered: "", pending: "busy", refused: "bad", rejected: "bad", disabled: "warn",
};

/** Shows the status of a run, a document or a part of a run. */
export function Status({ of }: { of: RunStatus | string }) {
  return <span class={"status " + (tones[of] ?? "")}>{wordFor(statuses, of)}</span>;
}

/** Shows an API error, with a button to retry. */
export function Problem({ error, retry }: { error: ApiError; retry?: () => void }) {
  return (
    <div class="problem stack" role="alert">
      <p><strong>{error.errors.length > 0 ? Words.requestWasRefusedCorrect : error.detail}</strong></p>
      {error.errors.length > 0 && <ul>{error.errors.map((e) => <li key={e.field + e.code}><code>{e.field}</code> {e.message}</li>)}</ul>}
      {error.retryAfter !== null && <p>{texts.tryAgainInS(error.retryAfter)}</p>}
      {error.requestId && <p class="small quiet">{texts.requestRequestId(error.requestId)}</p>}
      {retry && <div><Button onClick={retry}>{Words.tryAgain}</Button></div>}
    </div>
  );
}

/** The content of an empty page: its purpose and the next step. */
export function Empty({ title, children, action }: { title: string; children: ComponentChildren; action?: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      <p>{children}</p>
      {action}
    </div>
  );
}

/**
 * Shows the data of a query, its error, or a note that the data is loading. If the reload of an
 * empty list failed, only the error is shown, because the list may not be empty any more.
 */
export function Loaded<T>({ query, children, room }: {
  query: { data: T | undefined; error: ApiError | undefined; loading: boolean; reload: () => void }; children: (data: T) => ComponentChildren;
  /**
   * The approximate height of the data in CSS. It is reserved, so that the arrival of the data
   * moves nothing down.
   */
  room?: string;
}) {
  const list = (query.data as { data?: unknown } | undefined)?.data ?? query.data; // the entries of a paginated list are in the member data of its first page
  const stale = query.error !== undefined && Array.isArray(list) && list.length === 0;
  if (query.data !== undefined && !stale) {
    return <>{query.error && <Problem error={query.error} retry={query.reload} />}{children(query.data)}</>;
  }
  if (query.error) return <Problem error={query.error} retry={query.reload} />;
  return <div style={{ minHeight: room }}><Loading /></div>;
}

/** Shows, after a moment, that data is loading. */
export function Loading({ words: said = Words.loading }: { words?: string }) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 300);
    return () => clearTimeout(timer);
  }, []);
  return <p class="waiting" role="status">{late ? said + " …" : ""}</p>;
}

/** A button that loads the next page of a list. */
export function More({ list }: { list: { hasMore: boolean; loadingMore: boolean; more: () => void } }) {
  if (!list.hasMore) return null;
  return <div><Button onClick={list.more} disabled={list.loadingMore}>{list.loadingMore ? Words.loadingText : Words.showMore}</Button></div>;
}

const whole = new Intl.NumberFormat("en");
const exact = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const steps: [Intl.RelativeTimeFormatUnit, number][] = [["day", 86_400], ["hour", 3600], ["minute", 60], ["second", 1]];

/**
 * Formats a time relative to now, rounded down if it is past, and to the nearest unit if it is in
 * the future.
 */
function since(seconds: number): string {
  const [unit, size] = steps.find(([, n]) => Math.abs(seconds) >= n) ?? ["second", 1];
  return relative.format(seconds > 0 ? Math.round(seconds / size) : Math.trunc(seconds / size), unit);
}

/** Formats a time relative to now, or exactly if it is more than 30 days away. */
function relativeTime(at: string): string {
  const when = new Date(at);
  const seconds = (when.getTime() - Date.now()) / 1000;
  return Math.abs(seconds) > 30 * 86_400 ? exact.format(when) : Math.abs(seconds) < 5 ? Words.justNow : since(seconds);
}

const ticks = new Set<() => void>();
let ticking: ReturnType<typeof setInterval> | undefined;

/** Calls a function every 5 seconds, with one timer for the page. Returns the function that ends the calls. */
function onTick(call: () => void): () => void {
  ticks.add(call);
  ticking ??= setInterval(() => {
    for (const each of ticks) each();
  }, 5000);
  return () => {
    ticks.delete(call);
    if (ticks.size > 0) return;
    clearInterval(ticking);
    ticking = undefined;
  };
}

/** Shows a time relative to now. A tooltip shows the exact time. */
export function Time({ at }: { at: string | null | undefined }) {
  const [, draw] = useState("");
  useEffect(() => (at ? onTick(() => draw(relativeTime(at))) : undefined), [at]); // an unchanged text is not rendered again
  if (!at) return <span class="quiet">{Words.never}</span>;
  return <time dateTime={at} title={exactTime(at)}>{relativeTime(at)}</time>;
}

export const exactTime = (at: string): string => exact.format(new Date(at));
export const count = (n: number): string => whole.format(n);

/**
 * Explains why runs have no costs: the offline model is free. It links to the settings with the
 * prices of other models.
 */
export const Prices = () => texts.offlineModelIsFree("/docs/settings#models");

/** Formats milliseconds. */
export function duration(ms: number): string {
  if (ms < 1000) return texts.milliseconds(Math.round(ms));
  if (ms < 60_000) return texts.seconds((ms / 1000).toFixed(ms < 10_000 ? 1 : 0));
  const minutes = Math.floor(ms / 60_000);
  return minutes < 60 ? texts.minutesAndSeconds(minutes, Math.floor((ms % 60_000) / 1000)) : texts.hoursAndMinutes(Math.floor(minutes / 60), minutes % 60);
}

/** Formats bytes. */
export function size(bytes: number): string {
  if (bytes < 1024) return texts.bytes(bytes);
  if (bytes < 1 << 20) return texts.kibibytes((bytes / 1024).toFixed(bytes < 10_240 ? 1 : 0));
  return bytes < 2 ** 30 ? texts.mebibytes((bytes / (1 << 20)).toFixed(1)) : texts.gibibytes((bytes / 2 ** 30).toFixed(1));
}
