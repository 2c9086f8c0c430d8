// The keyboard shortcuts of all pages. The finder and the list of shortcuts are loaded on first use.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { toast } from "./ui/toast";

type Shown = "finder" | "help";

/** The parts that are loaded on first use. */
interface Parts {
  Finder: ComponentType<{ onClose: () => void; onHelp: () => void }>;
  Help: ComponentType<{ onClose: () => void }>;
}

const opened = new EventTarget();

/** Opens the finder. */
export const openFinder = (): void => void opened.dispatchEvent(new Event("finder"));

const setting = "parley.single-keys";

/** Whether the shortcuts of a single key are on. */
export function singleKeys(): boolean {
  try {
    return localStorage.getItem(setting) !== "off";
  } catch {
    return true; // the browser blocks storage
  }
}

export function setSingleKeys(on: boolean): void {
  try {
    if (on) localStorage.removeItem(setting);
    else localStorage.setItem(setting, "off");
  } catch {
    // the default stays
  }
}

/** Whether a key typed at the element is input. */
const typing = (at: EventTarget | null): boolean =>
  at instanceof HTMLElement && (at.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName));

/** Moves the focus to the page's search field, and returns whether it has one. */
function focusSearch(): boolean {
  const field = [...document.querySelectorAll<HTMLInputElement>('#content input[type="search"]')].find((f) => f.checkVisibility?.() ?? true);
  field?.focus();
  field?.select();
  return field !== undefined;
}

export function Shortcuts() {
  const [shown, setShown] = useState<Shown | null>(null);
  const [parts, setParts] = useState<Parts | null>(null);
  useEffect(() => {
    const open = (what: Shown) => {
      import("./finder").then((loaded) => {
        setParts(loaded);
        setShown(what);
      }, () => toast("Couldn't load this part of the dashboard. Check the connection and try again.", "bad"));
    };
    const press = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.isComposing || document.querySelector("dialog[open]")) return;
      const control = event.ctrlKey || event.metaKey;
      if (control && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
        event.preventDefault();
        open("finder");
      }
      if (control || event.altKey || typing(event.target) || !singleKeys()) return;
      if (event.key === "?") open("help");
      if (event.key === "/") {
        event.preventDefault();
        if (!focusSearch()) open("finder");
      }
    };
    const find = () => open("finder");
    addEventListener("keydown", press);
    opened.addEventListener("finder", find);
    return () => {
      removeEventListener("keydown", press);
      opened.removeEventListener("finder", find);
    };
  }, []);
  const close = () => setShown(null);
  if (parts === null || shown === null) return null;
  return shown === "finder" ? <parts.Finder onClose={close} onHelp={() => setShown("help")} /> : <parts.Help onClose={close} />;
}
