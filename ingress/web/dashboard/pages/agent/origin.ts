// Origins of web pages, as people type them and as browsers send them.

const shape = /^(?:(https?):\/\/)?(\[[0-9a-f:.]+\]|[^\s/?#@\\:*%[\]]+)(?::(\d{1,5}))?\/?$/i;
const label = /^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$/;

function parsed(address: string): URL | null {
  try {
    return new URL(address);
  } catch {
    return null; // such as a port above 65535
  }
}

/** An origin as browsers send it, of one that somebody typed; null when it is none. A word alone is none: it needs a scheme, a port or a dot. */
export function originOf(text: string): string | null {
  const [, scheme, host = "", port] = shape.exec(text) ?? [];
  if (host === "" || Number(port ?? 1) < 1) return null;
  if (scheme === undefined && port === undefined && !host.includes(".") && host.toLowerCase() !== "localhost") return null;
  const url = parsed(scheme === undefined ? "https://" + text : text);
  if (url === null || url.origin.length > 255) return null;
  const ascii = !/[^\x21-\x7e]/.test(host);
  if (ascii && url.hostname !== host.toLowerCase() && !host.startsWith("[")) return null; // such as 1.5, which is read as 1.0.0.5
  return host.startsWith("[") || url.hostname.split(".").every((part) => label.test(part)) ? url.origin : null;
}

/** The origins of a text with spaces or commas between, or why it holds something else: then none of it counts. */
export function originsOf(text: string): { origins: string[]; fault: string } {
  const words = text.split(/[\s,]+/).filter(Boolean);
  const wrong = words.filter((w) => originOf(w) === null);
  if (wrong.length === 0) return { origins: words.map(originOf).filter((o) => o !== null), fault: "" };
  const why = wrong.some((w) => w.includes("*")) ? "Patterns are not possible: name each origin" : "Give a scheme and a host, and no path";
  return { origins: [], fault: `Not an origin: ${wrong.join(", ")}. ${why}, such as https://www.example.com.` };
}
