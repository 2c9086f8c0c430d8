// Reloads of usage, which the service caches.
import { useCallback, useEffect, useRef } from "preact/hooks";
import { useLive } from "../../live";

const cached = 11_000; // milliseconds until the service counts again
const pace = 5_000; // milliseconds between two reloads

/** Reloads usage when runs change, and again when the service has counted again. The first response may be an older count, too. */
export function useCounted(reload: () => void): void {
  const later = useRef(new Set<ReturnType<typeof setTimeout>>()).current;
  const again = useCallback(() => {
    const timer = setTimeout(() => {
      later.delete(timer);
      reload();
    }, cached);
    later.add(timer); // one for each change: a later change must not postpone the count of an earlier one
  }, [reload]);
  useEffect(() => {
    again();
    return () => later.forEach(clearTimeout);
  }, [again]);
  useLive("runs", useCallback(() => {
    reload();
    again();
  }, [reload, again]), pace);
}
