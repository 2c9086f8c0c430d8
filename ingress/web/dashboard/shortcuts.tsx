// The keyboard shortcuts of all pages.
import { useEffect, useState } from "preact/hooks";
import { Finder, Help } from "./finder";
import { opened, singleKeys } from "./keys";

/** Reports whether the element treats a typed key as input. */
const takesInput = (at: EventTarget | null): boolean =>
  at instanceof HTMLElement && (at.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName));

/** Moves the focus to the page's search field. Returns false if the page has none. */
function focusSearch(): boolean {
  const field = [...document.querySelectorAll<HTMLInputElement>('#content input[type="search"]')].find((f) => f.checkVisibility?.() ?? true);
  field?.focus();
  field?.select();
  return field !== undefined;
}

export function Shortcuts() {
  const [shown, setShown] = useState<"finder" | "help" | null>(null);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.isComposing || document.querySelector("dialog[open]")) return;
      const control = event.ctrlKey || event.metaKey;
      if (control && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
        event.preventDefault();
        setShown("finder");
      }
      if (control || event.altKey || takesInput(event.target) || !singleKeys()) return;
      if (event.key === "?") setShown("help");
      if (event.key === "/") {
        event.preventDefault();
        if (!focusSearch()) setShown("finder");
      }
    };
    const find = () => setShown("finder");
    addEventListener("keydown", press);
    opened.addEventListener("finder", find);
    return () => {
      removeEventListener("keydown", press);
      opened.removeEventListener("finder", find);
    };
  }, []);
  const close = () => setShown(null);
  if (shown === null) return null;
  return shown === "finder" ? <Finder onClose={close} onHelp={() => setShown("help")} /> : <Help onClose={close} />;
}
