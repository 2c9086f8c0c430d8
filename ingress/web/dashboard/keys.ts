// Opening the finder, and the setting of the shortcuts of a single key.
/** Receives an event finder when the finder must open. */
export const opened = new EventTarget();

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

/** Turns the shortcuts of a single key on or off. */
export function setSingleKeys(on: boolean): void {
  try {
    if (on) localStorage.removeItem(setting);
    else localStorage.setItem(setting, "off");
  } catch {
    // the default stays
  }
}
