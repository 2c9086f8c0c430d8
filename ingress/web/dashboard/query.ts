// Loads the data of pages: single objects, and paginated lists.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get, type ApiError, type Params } from "./api";
import { useComeback } from "./live";
import { isReturning } from "./router";
import type { List } from "./types";

export interface Query<T> {
  data: T | undefined;
  error: ApiError | undefined;
  loading: boolean;
  reload: () => void;
  /** Sets the data, which the next load replaces. */
  set: (data: T) => void;
}

/**
 * Loads data when key changes and when reload is called. For the same key, the previous data stays
 * until the new data has loaded. Responses for an earlier key are dropped. A null key loads
 * nothing. If a load failed because the service was unreachable or failed, it is repeated when the
 * service works again.
 */
export function useQuery<T>(key: string | null, load: (signal: AbortSignal) => Promise<T>): Query<T> {
  const [state, setState] = useState<{ key: string | null; data?: T; error?: ApiError }>({ key: null });
  const [turn, setTurn] = useState(0);
  const [loading, setLoading] = useState(key !== null);
  const loader = useRef(load);
  loader.current = load;
  useEffect(() => {
    if (key === null) return;
    const stop = new AbortController();
    setLoading(true);
    loader.current(stop.signal).then(
      (data) => {
        if (stop.signal.aborted) return;
        setState({ key, data });
        setLoading(false);
      },
      (error: ApiError) => {
        if (stop.signal.aborted) return;
        setState((before) => ({ key, data: before.key === key ? before.data : undefined, error }));
        setLoading(false);
      },
    );
    return () => stop.abort();
  }, [key, turn]);
  const current = state.key === key ? state : { key };
  const reload = useCallback(() => setTurn((n) => n + 1), []);
  useComeback(current.error, reload);
  return {
    data: current.data,
    error: current.error,
    loading: loading || (key !== null && state.key !== key),
    reload,
    set: useCallback((data: T) => setState({ key, data }), [key]),
  };
}

interface ListQuery<T> extends Query<T[]> {
  hasMore: boolean;
  loadingMore: boolean;
  more: () => void;
}

const lengths = new Map<string | null, number>(); // of the lists that were shown

/** Notes how many entries of a list are shown. */
export function noteLength(key: string | null, shown: number): void {
  if (shown > 0) lengths.set(key, shown);
}

/** Returns how many entries of a list were shown when the person left the page, if they return to it. */
export const earlierLength = (key: string | null): number => (isReturning() && lengths.get(key)) || 0;

/**
 * Loads a list from the API. The returned function more appends the next page, and reload loads as
 * many entries again as are shown, up to 100.
 */
export function useList<T>(path: string | null, params: Params = {}): ListQuery<T> {
  const key = path === null ? null : path + JSON.stringify(params);
  const [rest, setRest] = useState<{ key: string | null; pages: List<T>[] }>({ key: null, pages: [] });
  const [loadingMore, setLoadingMore] = useState(false);
  const [failed, setFailed] = useState<ApiError>();
  const pages = rest.key === key ? rest.pages : [];
  const shown = useRef(0);
  const first = useQuery<List<T>>(key, async (signal) => {
    const limit = Math.min(100, Math.max(Number(params["limit"] ?? 20), shown.current, earlierLength(key)));
    const page = await get<List<T>>(path ?? "", { ...params, limit }, signal);
    setRest({ key, pages: [] });
    return page;
  });
  const all = first.data === undefined ? undefined : [first.data, ...pages];
  const last = all?.at(-1);
  const data = all?.flatMap((page) => page.data);
  shown.current = data?.length ?? 0;
  noteLength(key, shown.current);
  const more = useCallback(() => {
    if (path === null || !last?.hasMore || loadingMore) return;
    setLoadingMore(true);
    setFailed(undefined);
    get<List<T>>(path, { ...params, cursor: last.nextCursor })
      .then((page) => setRest((before) => ({ key, pages: before.key === key ? [...before.pages, page] : [page] })), setFailed)
      .finally(() => setLoadingMore(false));
  }, [key, last, loadingMore]);
  return {
    data, error: first.error ?? failed, loading: first.loading, reload: first.reload, hasMore: last?.hasMore ?? false, loadingMore, more,
    set: (entries) => first.set({ data: entries, hasMore: false, nextCursor: null }),
  };
}
