// Finds the target of a citation.

/**
 * Returns the URL if it is an http or https URL. Otherwise returns null, because other URLs must
 * not become links.
 */
export const webAddress = (url: string): string | null => (/^https?:\/\//i.test(url) && URL.canParse(url) ? url : null);

/**
 * Returns the start and the end of a quote in a text, or null if the text does not contain the
 * quote. If there is no exact match, differences in white space are ignored.
 */
export function findQuote(text: string, words: string): [number, number] | null {
  if (words.trim() === "") return null;
  const exact = text.indexOf(words);
  if (exact >= 0) return [exact, exact + words.length];
  const loose = words.trim().split(/\s+/).slice(0, 400).map((w) => w.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("\\s+");
  const found = new RegExp(loose).exec(text);
  return found ? [found.index, found.index + found[0].length] : null;
}
