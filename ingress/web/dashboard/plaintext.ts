// The plain text of Markdown, for lists and for screen readers.
import { markdown, type Make } from "../kit/markdown";

const within = new Set(["strong", "em", "del", "code", "sup"]); // the inline elements of Markdown

/** Returns the plain text of a Markdown node. */
const words: Make<string> = (tag, props, ...children) => {
  const parts = (children as unknown[]).flat(Infinity) as string[];
  if (within.has(tag)) return parts.join("");
  if (tag === "input") return props?.["checked"] ? "[x]" : "[ ]";
  if (tag === "ul") return parts.map((item) => `- ${item}`).join("");
  if (tag === "ol") return parts.map((item, i) => `${Number(props?.["start"] ?? 1) + i}. ${item}`).join("");
  return parts.join("") + "\n";
};

/** Returns Markdown as a single line of plain text. */
export const plainText = (text: string): string => markdown(text, { h: words }).join("").replace(/\s+/g, " ").trim();
