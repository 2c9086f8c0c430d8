// Finds the target of a citation.

/**
 * Returns the address if it is an http or https address, and null for any other, which must not
 * become a link.
 */
export const webAddress = (url: string): string | null => (/^https?:\/\//i.test(url) && URL.canParse(url) ? url : null);

/**
 * Returns the start and end of the words in a text, or null. If there is no exact match, white
 * space may differ.
 */
export function place(text: string, words: string): [number, number] | null {
  if (words.trim() === "") return null;
  const exact = text.indexOf(words);
  if (exact >= 0) return [exact, exact + words.length];
  const loose = words.trim().split(/\s+/).slice(0, 400).map((w) => w.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("\\s+");
  const found = new RegExp(loose).exec(text);
  return found ? [found.index, found.index + found[0].length] : null;
}
