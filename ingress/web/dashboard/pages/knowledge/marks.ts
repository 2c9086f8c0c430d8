// Finds a quote among the words of a page's picture.
import type { PageWord } from "../../types";

/** A rectangle on a page: left, top, right and bottom, in points. */
export type Box = PageWord["box"];

/** The minimum number of letters in a half of a quote that is searched separately. */
const minHalf = 24;

/**
 * Returns the letters and digits of a text. Quotes and pages may differ in all other characters.
 */
const letters = (text: string): string => text.normalize("NFKC").toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");

/**
 * Returns the boxes of a quote, one for each line. If the quote continues in another column or on
 * another page, returns the boxes of the half that the page contains. Returns no boxes if the page
 * contains neither half.
 */
export function findMarks(words: PageWord[], quote: string): Box[] {
  const sought = letters(quote);
  if (sought === "") return [];

  let text = "";
  const ends = words.map((w) => (text += letters(w.text)).length);
  const boxes = (part: string): Box[] => {
    const at = part === "" ? -1 : text.indexOf(part);
    if (at < 0) return [];
    const first = ends.findIndex((end) => end > at);
    const last = ends.findIndex((end) => end >= at + part.length);
    return lines(words.slice(first, last + 1).map((w) => w.box));
  };

  const whole = boxes(sought);
  const half = Math.floor(sought.length / 2);
  if (whole.length > 0 || half < minHalf) return whole;
  return [...boxes(sought.slice(0, half)), ...boxes(sought.slice(half))];
}

/** Joins the boxes of adjacent words on the same line. */
function lines(boxes: Box[]): Box[] {
  const joined: Box[] = [];
  for (const box of boxes) {
    const line = joined.at(-1);
    const overlap = line ? Math.min(line[3], box[3]) - Math.max(line[1], box[1]) : 0;
    if (line && overlap > (box[3] - box[1]) / 2 && box[0] >= line[0]) joined[joined.length - 1] = [line[0], Math.min(line[1], box[1]), Math.max(line[2], box[2]), Math.max(line[3], box[3])];
    else joined.push(box);
  }
  return joined;
}
