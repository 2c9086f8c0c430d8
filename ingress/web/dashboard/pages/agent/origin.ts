// Parses web origins.
import * as texts from "../../texts/embed";
import { Words } from "../../texts/embed";

const shape = /^(?:(https?):\/\/)?(\[[0-9a-f:.]+\]|[^\s/?#@\\:*%[\]]+)(?::(\d{1,5}))?\/?$/i;
const label = /^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$/;

function parseUrl(address: string): URL | null {
  try {
    return new URL(address);
  } catch {
    return null; // not a URL, for example because the port is above 65535
  }
}

/**
 * Returns a typed origin in the form that browsers send, or null if the text is not an origin. A
 * single word needs a scheme, a port or a dot.
 */
export function parseOrigin(text: string): string | null {
  const [, scheme, host = "", port] = shape.exec(text) ?? [];
  if (host === "" || Number(port ?? 1) < 1) return null;
  if (scheme === undefined && port === undefined && !host.includes(".") && host.toLowerCase() !== "localhost") return null;
  const url = parseUrl(scheme === undefined ? "https://" + text : text);
  if (url === null || url.origin.length > 255) return null;
  const ascii = !/[^\x21-\x7e]/.test(host);
  if (ascii && url.hostname !== host.toLowerCase() && !host.startsWith("[")) return null; // rejects hosts such as 1.5, which the class URL changes to 1.0.0.5
  return host.startsWith("[") || url.hostname.split(".").every((part) => label.test(part)) ? url.origin : null;
}

/**
 * Returns the origins in a text, in which spaces or commas separate them. If a part of the text is
 * not an origin, returns an error and no origins.
 */
export function parseOrigins(text: string): { origins: string[]; fault: string } {
  const words = text.split(/[\s,]+/).filter(Boolean);
  const wrong = words.filter((w) => parseOrigin(w) === null);
  if (wrong.length === 0) return { origins: words.map(parseOrigin).filter((o) => o !== null), fault: "" };
  const why = wrong.some((w) => w.includes("*")) ? Words.patternsAreNotSupported : Words.useSchemeAndHost;
  return { origins: [], fault: texts.notOriginForExample(wrong.join(", "), why) };
}
