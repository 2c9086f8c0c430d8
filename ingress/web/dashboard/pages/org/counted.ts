// Reloads the usage figures, which the service caches.
import { useCallback, useEffect, useRef } from "preact/hooks";
import { useLive } from "../../live";

const cached = 11_000; // milliseconds until the service counts again
const pace = 5_000; // milliseconds between two reloads

/**
 * Reloads usage when runs change. It reloads once more after the service has counted again, because
 * the first response may be an older count.
 */
export function useCounted(reload: () => void): void {
  const later = useRef(new Set<ReturnType<typeof setTimeout>>()).current;
  const again = useCallback(() => {
    const timer = setTimeout(() => {
      later.delete(timer);
      reload();
    }, cached);
    later.add(timer); // each change has its own timer, so that later changes do not postpone its reload
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
