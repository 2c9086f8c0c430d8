// Creates elements without HTML strings. Pages may forbid such strings, and text in them could be
// interpreted as markup.
import type { Child } from "../kit/markdown";
import { own } from "./origin";

type Props = Record<string, string | number | boolean> | null;

function fill(node: Element, children: Child<Node>[]): void {
  for (const child of children) {
    if (Array.isArray(child)) fill(node, child);
    else node.append(child);
  }
}

/** Creates an element. */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, props?: Props, ...children: Child<Node>[]): HTMLElementTagNameMap[K];
export function h(tag: string, props?: Props, ...children: Child<Node>[]): HTMLElement;
export function h(tag: string, props: Props = null, ...children: Child<Node>[]): HTMLElement {
  const node = own("createElement").call(document, tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value !== false) node.setAttribute(name, value === true ? "" : String(value));
  }
  fill(node, children);
  return node;
}

const drawn = {
  chat: "M5 5h14a2 2 0 0 1 2 2v8a2 2 0 0 1-2 2h-7l-5 4v-4H5a2 2 0 0 1-2-2V7a2 2 0 0 1 2-2z",
  close: "M6 6l12 12M18 6L6 18",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M6 6h12v12H6z",
};

export const icon = (name: keyof typeof drawn): Node => picture(drawn[name]);

/** Returns an icon that consists of the given path. Screen readers ignore it. */
export function picture(lines: string): Node {
  const space = "http://www.w3.org/2000/svg";
  const svg = own("createElementNS").call(document, space, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const path = own("createElementNS").call(document, space, "path");
  path.setAttribute("d", lines);
  svg.append(path);
  return svg;
}
