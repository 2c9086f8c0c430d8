// The live list of runs. While the reader is scrolled down, shown rows stay in place and new runs
// are not shown yet.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get, type ApiError, type Params } from "../../api";
import { useComeback } from "../../live";
import { earlierLength, noteLength } from "../../query";
import { ended } from "./times";
import type { List, RunSummary } from "../../types";

const pageSize = 40; // number of runs that one step adds to the list
const maxPageSize = 100; // maximum number of runs in one request
const maxRequests = 10; // maximum number of requests that restore the list
const maxReadSingly = 10; // maximum number of older unfinished runs, which are read one by one

interface Shown {
  key: string;
  rows: RunSummary[];
  next: string | null;
  /** The newest page, if it contains runs that are not shown yet. */
  hidden: List<RunSummary> | null;
  fresh: number;
}

interface RunList {
  rows: RunSummary[] | undefined;
  error: ApiError | undefined;
  loading: boolean;
  hasMore: boolean;
  loadingMore: boolean;
  more: () => void;
  /** Loads the newest runs, and the states of the shown runs. */
  refresh: () => void;
  /** The number of new runs that are not shown yet, at most the size of a page. */
  fresh: number;
  show: () => void;
  replace: (run: RunSummary) => void;
}

/** Merges the newest page into the shown rows. If hideNew is true, new runs stay hidden. */
function merge(before: Shown, newest: List<RunSummary>, hideNew: boolean): Shown {
  const read = new Map(newest.data.map((run) => [run.id, run]));
  if (newest.data.length === 0 && newest.hasMore) return { ...before, next: before.next ?? newest.nextCursor }; // no run was found so far
  const oldest = newest.hasMore ? (newest.data.at(-1)?.id ?? "") : "";
  const rows = before.rows.filter((run) => read.has(run.id) || run.id < oldest).map((run) => read.get(run.id) ?? run);
  const have = new Set(rows.map((run) => run.id));
  const fresh = newest.data.filter((run) => !have.has(run.id));
  if (hideNew && before.rows.length > 0 && fresh.length > 0) {
    const apart = oldest > (before.rows[0]?.id ?? ""); // there are so many new runs that the page contains none of the shown runs
    return { ...before, rows: apart ? before.rows : rows, hidden: newest, fresh: fresh.length };
  }
  if (rows.every((run) => read.has(run.id))) return { ...before, rows: newest.data, next: newest.hasMore ? newest.nextCursor : null, hidden: null, fresh: 0 };
  const apart = oldest > (rows[0]?.id ?? "");
  if (apart) return { ...before, rows: newest.data, next: newest.nextCursor, hidden: null, fresh: 0 };
  return { ...before, rows: [...rows, ...fresh].sort((a, b) => (a.id < b.id ? 1 : -1)), hidden: null, fresh: 0 };
}

/**
 * Reads the newest runs, shown many of them but at least a page. If a person returns to a list of
 * rows runs, reads further pages until there are as many, so that the person finds the run that
 * they opened. A search may return fewer runs than it was asked for.
 */
async function readNewest(params: Params, shown: number, rows: number, signal: AbortSignal): Promise<List<RunSummary>> {
  let page = await get<List<RunSummary>>("/api/runs", { ...params, limit: Math.min(maxPageSize, Math.max(pageSize, shown, rows)) }, signal);
  let data = page.data;
  for (let n = 1; n < maxRequests && page.hasMore && data.length < rows; n++) {
    page = await get<List<RunSummary>>("/api/runs", { ...params, limit: Math.min(maxPageSize, rows - data.length), cursor: page.nextCursor }, signal);
    data = [...data, ...page.data];
  }
  return { ...page, data };
}

/** Reads unfinished runs that are too old for the newest page, because they may have finished. */
async function stragglers(rows: RunSummary[], newest: List<RunSummary>, signal: AbortSignal): Promise<Map<string, RunSummary>> {
  const read = new Set(newest.data.map((run) => run.id));
  const open = rows.filter((run) => !read.has(run.id) && !ended(run)).slice(0, maxReadSingly);
  const found = await Promise.all(open.map((run) => get<RunSummary>("/api/runs", { id: run.id }, signal).then((read) => ({ ...read, input: run.input }), () => run)));
  return new Map(found.map((run) => [run.id, run]));
}

export function useRunList(params: Params, hideNew: () => boolean): RunList {
  const key = JSON.stringify(params);
  const [shown, setShown] = useState<Shown>({ key: "", rows: [], next: null, hidden: null, fresh: 0 });
  const [error, setError] = useState<ApiError>();
  const [turn, setTurn] = useState(0);
  const [loading, setLoading] = useState(true);
  const [loadingMore, setLoadingMore] = useState(false);
  const now = useRef({ shown, params, hideNew });
  now.current = { shown, params, hideNew };
  if (shown.key === key) noteLength(key, shown.rows.length);

  useEffect(() => {
    const stop = new AbortController();
    const rows = now.current.shown.key === key ? now.current.shown.rows : [];
    setLoading(true);
    const read = async () => {
      const newest = await readNewest(params, rows.length, earlierLength(key), stop.signal);
      const older = newest.hasMore ? await stragglers(rows, newest, stop.signal) : new Map<string, RunSummary>();
      if (stop.signal.aborted) return;
      setShown((before) => {
        const same = before.key === key ? before : { key, rows: [], next: null, hidden: null, fresh: 0 };
        const known = same.rows.map((run) => older.get(run.id) ?? run);
        return merge({ ...same, rows: known }, newest, now.current.hideNew());
      });
      setError(undefined);
    };
    read().catch((cause: ApiError) => !stop.signal.aborted && setError(cause)).finally(() => !stop.signal.aborted && setLoading(false));
    return () => stop.abort();
  }, [key, turn]);

  const more = useCallback(() => {
    const { next } = now.current.shown;
    if (next === null || loadingMore) return;
    setLoadingMore(true);
    get<List<RunSummary>>("/api/runs", { ...params, limit: pageSize, cursor: next })
      .then((older) => setShown((before) => {
        if (before.key !== key || before.next !== next) return before;
        return { ...before, rows: [...before.rows, ...older.data], next: older.hasMore ? older.nextCursor : null };
      }), setError)
      .finally(() => setLoadingMore(false));
  }, [key, loadingMore]);

  const refresh = useCallback(() => setTurn((n) => n + 1), []);
  useComeback(error, refresh);
  const current = shown.key === key;
  return {
    rows: current ? shown.rows : undefined, error, loading: loading || !current, hasMore: current && shown.next !== null, loadingMore, more,
    refresh,
    fresh: current ? shown.fresh : 0,
    show: useCallback(() => setShown((before) => (before.hidden === null ? before : merge(before, before.hidden, false))), []),
    replace: useCallback((run: RunSummary) => setShown((before) => ({ ...before, rows: before.rows.map((r) => (r.id === run.id ? { ...run, input: r.input } : r)) })), []),
  };
}
