// The choice between the light and the dark theme. The style sheets contain the dark colours in a
// media query.

export type Theme = "system" | "light" | "dark";

const stored = "parley.theme";
const query = "(prefers-color-scheme: dark)";

/**
 * The media query of the dark colours, for each theme. All queries begin with the same words, so
 * that applyTheme can find the query in the style sheets.
 */
const media: Record<Theme, string> = {
  system: query, light: "(prefers-color-scheme: dark) and (max-width: 0px)", dark: "(prefers-color-scheme: dark), all",
};

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
    // the browser blocks its storage: the choice lasts until the page is left
  }
  applyTheme(wanted);
}

/**
 * Makes the media query of the dark theme match always, never, or when the system uses a dark
 * theme.
 */
export function applyTheme(wanted: Theme): void {
  for (const sheet of document.styleSheets) {
    for (const rule of sheet.cssRules) {
      if (rule instanceof CSSMediaRule && rule.media.mediaText.startsWith(query)) rule.media.mediaText = media[wanted];
    }
  }
  document.documentElement.style.colorScheme = wanted === "system" ? "" : wanted;
}
