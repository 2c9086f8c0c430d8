// Syntax highlighting. Import it lazily: the languages are larger than the page that needs them.
/// <reference path="../third_party/highlight.js/types/index.d.ts" />
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import css from "highlight.js/lib/languages/css";
import go from "highlight.js/lib/languages/go";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import markdown from "highlight.js/lib/languages/markdown";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { createLowlight } from "../third_party/lowlight/lib/index.js";
import type { Child, Make } from "./markdown";

/**
 * The maximum length of highlighted code, in characters. Highlighting longer code would take too
 * long.
 */
const maxLength = 20_000;
/** The maximum nesting depth of highlighted spans. Deeper ones become plain text. */
const maxDepth = 24;

const lowlight = createLowlight({ bash, c, cpp, css, go, java, javascript, json, markdown, python, rust, sql, typescript, xml, yaml });

interface Tree {
  type: string;
  value?: string;
  properties?: { className?: unknown };
  children?: Tree[];
}

function treeText(tree: Tree): string {
  let text = "";
  const left = [tree];
  for (let next = left.pop(); next; next = left.pop()) {
    text += next.value ?? "";
    left.push(...(next.children ?? []).toReversed());
  }
  return text;
}

function nodes<N>(h: Make<N>, trees: Tree[], depth: number): Child<N>[] {
  return trees.map((tree): Child<N> => {
    if (tree.type !== "element") return tree.value ?? "";
    if (depth >= maxDepth) return treeText(tree);
    const names = tree.properties?.className;
    return h("span", { class: Array.isArray(names) ? names.join(" ") : "" }, nodes(h, tree.children ?? [], depth + 1));
  });
}

/**
 * Reports whether brackets are nested more deeply than in real code. Highlighting such a text would
 * take quadratic time.
 */
function isTangled(text: string): boolean {
  let open = 0;
  for (const c of text) {
    if ("([{<".includes(c)) open++;
    else if (")]}>".includes(c)) open = Math.max(0, open - 1);
    if (open > 500) return true;
  }
  return false;
}

/**
 * Returns the children of a code element: spans with highlight.js's classes, or plain text if the
 * language is unknown or the code is long.
 */
export function highlight<N>(h: Make<N>, text: string, language: string): Child<N>[] {
  if (text.length > maxLength || !lowlight.registered(language) || isTangled(text)) return [text];
  return nodes(h, lowlight.highlight(language, text).children as Tree[], 0);
}
