import { useEffect, useRef } from "preact/hooks";

/**
 * Moves the keyboard focus to the closest remaining ancestor when the focused element disappears.
 */
export function useKeptFocus(): void {
  const path = useRef<HTMLElement[]>([]);
  useEffect(() => {
    const note = (event: FocusEvent) => {
      path.current = [];
      for (let at = event.target; at instanceof HTMLElement && at !== document.body; at = at.parentElement) path.current.push(at);
    };
    document.addEventListener("focusin", note);
    return () => document.removeEventListener("focusin", note);
  }, []);
  useEffect(() => {
    const [had] = path.current;
    if (document.activeElement !== document.body || !had || had.isConnected) return;
    for (const target of path.current.filter((element) => element.isConnected)) {
      if (!target.hasAttribute("tabindex")) target.tabIndex = -1;
      target.focus({ preventScroll: true });
      if (document.activeElement === target) return; // a hidden element does not take the focus
    }
  });
}
