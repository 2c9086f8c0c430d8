// The choice between the light and the dark theme. The style sheet contains the dark colours in a
// media query.

export type Theme = "system" | "light" | "dark";

const stored = "parley.theme";
const query = "(prefers-color-scheme: dark)";

/** Returns the theme that was chosen in this browser. */
export function theme(): Theme {
  try {
    const value = localStorage.getItem(stored);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system"; // the browser blocks storage
  }
}

/** Chooses the theme of this browser, and applies it. */
export function chooseTheme(wanted: Theme): void {
  try {
    if (wanted === "system") localStorage.removeItem(stored);
    else localStorage.setItem(stored, wanted);
  } catch {
    // the choice lasts until the page is left
  }
  applyTheme(wanted);
}

let rules: CSSMediaRule[] | null = null;

/** Makes the media query of the dark theme match always, never, or according to the system. */
export function applyTheme(wanted: Theme): void {
  rules ??= [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules])
    .filter((rule): rule is CSSMediaRule => rule instanceof CSSMediaRule && rule.media.mediaText === query);
  for (const rule of rules) rule.media.mediaText = wanted === "system" ? query : wanted === "dark" ? "all" : "not all";
  document.documentElement.style.colorScheme = wanted === "system" ? "" : wanted;
}
