// Where widget.js came from, and with it the API. Pages hold elements of strangers, and one that is named like what a document
// has - <img name="currentScript"> - stands before it: the document is asked where no name reaches.

/** What the document itself has of that name, whatever elements of the page are called. */
export const own = <K extends keyof Document>(name: K): Document[K] => Reflect.get(Document.prototype, name, document) as Document[K];

const folder = (script: HTMLScriptElement): string => new URL(".", script.src).href;

/** Whether this is a script that was loaded from an address. */
function loaded(node: unknown): node is HTMLScriptElement {
  return node instanceof HTMLScriptElement && /^https?:/i.test(node.src) && URL.canParse(node.src);
}

/**
 * The script element that loaded this file, null if it cannot be told. In a module or a shadow tree the browser does not say
 * which one is running: there it is one whose address ends in /widget.js, provided that all of those lead to the same place.
 */
export function ownScript(): HTMLScriptElement | null {
  const current: unknown = own("currentScript");
  if (loaded(current)) return current;
  const named = [...own("querySelectorAll").call(document, "script[src]")].filter(loaded).filter((s) => new URL(s.src).pathname.endsWith("/widget.js"));
  if (new Set(named.map(folder)).size !== 1) return null;
  return named.find((s) => s.dataset.agent) ?? named[0] ?? null;
}

/** The address that the API's paths are behind: the folder of the script. */
export const baseOf = (script: HTMLScriptElement | null): string => (script ? folder(script) : "");
