// Reloads the usage figures. The service caches these figures.
import { useCallback, useEffect, useRef } from "preact/hooks";
import { useLive } from "../../live";

const cacheTime = 11_000; // milliseconds after which the service has counted again
const pace = 5_000; // milliseconds between two reloads

/**
 * Reloads usage when runs change. The first response may contain the cached figures, so the figures
 * are loaded again when the service has counted again.
 */
export function useCounted(reload: () => void): void {
  const later = useRef(new Set<ReturnType<typeof setTimeout>>()).current;
  const again = useCallback(() => {
    const timer = setTimeout(() => {
      later.delete(timer);
      reload();
    }, cacheTime);
    later.add(timer); // each change has a timer of its own, so that later changes do not postpone its reload
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
