// Determines the URL of widget.js, and that of the API in the same folder. An element in the page,
// for example <img name="currentScript">, can hide a property of the document. The properties are
// therefore read from the document's prototype.

/** Returns a property of the document, even if an element in the page has the same name. */
export const own = <K extends keyof Document>(name: K): Document[K] => Reflect.get(Document.prototype, name, document) as Document[K];

const folder = (script: HTMLScriptElement): string => new URL(".", script.src).href;

/** Reports whether a node is a script that was loaded from a URL. */
function isLoaded(node: unknown): node is HTMLScriptElement {
  return node instanceof HTMLScriptElement && /^https?:/i.test(node.src) && URL.canParse(node.src);
}

/**
 * Returns the script element that loaded this file, or null if it is unknown. In a module or a
 * shadow tree the browser does not report the current script. Then the result is a script whose URL
 * ends in /widget.js, if all such scripts have the same folder.
 */
export function ownScript(): HTMLScriptElement | null {
  const current: unknown = own("currentScript");
  if (isLoaded(current)) return current;
  const named = [...own("querySelectorAll").call(document, "script[src]")].filter(isLoaded).filter((s) => new URL(s.src).pathname.endsWith("/widget.js"));
  if (new Set(named.map(folder)).size !== 1) return null;
  return named.find((s) => s.dataset.agent) ?? named[0] ?? null;
}

/**
 * Returns the base URL of the API, which is the folder of the script. If there is no script, the
 * page belongs to the service itself.
 */
export const baseUrl = (script: HTMLScriptElement | null): string => (script ? folder(script) : "/");
