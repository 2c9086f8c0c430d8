// Opens the finder, and stores whether single-key shortcuts are on.
/** The target of the event "finder", which opens the finder. */
export const opened = new EventTarget();

/** Opens the finder. */
export const openFinder = (): void => void opened.dispatchEvent(new Event("finder"));

const storageKey = "parley.single-keys";

/** Reports whether single-key shortcuts are on. */
export function singleKeys(): boolean {
  try {
    return localStorage.getItem(storageKey) !== "off";
  } catch {
    return true; // storage is blocked by the browser
  }
}

/** Turns single-key shortcuts on or off. */
export function setSingleKeys(on: boolean): void {
  try {
    if (on) localStorage.removeItem(storageKey);
    else localStorage.setItem(storageKey, "off");
  } catch {
    // the browser blocks its storage: the setting lasts until the page is left
  }
}
