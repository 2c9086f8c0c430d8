// Reloads of usage, which the service caches.
import { useCallback, useEffect, useRef } from "preact/hooks";
import { useLive } from "../../live";

const cached = 11_000; // milliseconds until the service counts again
const pace = 5_000; // milliseconds between two reloads

/** Reloads usage when runs change, and again when the service has counted again. The first response may be an older count, too. */
export function useCounted(reload: () => void): void {
  const later = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const again = useCallback(() => {
    clearTimeout(later.current);
    later.current = setTimeout(reload, cached);
  }, [reload]);
  useEffect(() => {
    again();
    return () => clearTimeout(later.current);
  }, [again]);
  useLive("runs", useCallback(() => {
    reload();
    again();
  }, [reload, again]), pace);
}
