// Where a citation leads.

/** The address of a page of the web, or nothing: others are not to be followed. */
export const webAddress = (url: string): string | null => (/^https?:\/\//i.test(url) && URL.canParse(url) ? url : null);

/** Where words stand in a text: as they are, or else with other white space between them. */
export function place(text: string, words: string): [number, number] | null {
  if (words.trim() === "") return null;
  const exact = text.indexOf(words);
  if (exact >= 0) return [exact, exact + words.length];
  const loose = words.trim().split(/\s+/).slice(0, 400).map((w) => w.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("\\s+");
  const found = new RegExp(loose).exec(text);
  return found ? [found.index, found.index + found[0].length] : null;
}
