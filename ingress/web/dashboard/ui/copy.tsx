// Text to copy, and requests as curl commands.
import { useEffect, useId, useState } from "preact/hooks";
import { address, type Params } from "../api";
import * as texts from "../texts/parts";
import { Words } from "../texts/parts";
import { Button } from "./button";
import { toast } from "./toast";

/** A button that copies a text and then shows that it was copied. */
export function Copy({ text, label = Words.copy, words = Words.copy }: { text: string; label?: string; words?: string }) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return;
    const timer = setTimeout(() => setDone(false), 2000);
    return () => clearTimeout(timer);
  }, [done]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setDone(true);
    } catch {
      toast(Words.browserBlockedCopyingSelect, "bad");
    }
  };
  return <Button look="bare" icon={done ? "check" : "copy"} label={done ? Words.copied : label} onClick={copy}>{done ? Words.copied : words}</Button>;
}

/** A text to copy, for example a command. */
export function Snippet({ text, label }: { text: string; label: string }) {
  const id = useId();
  return (
    <div class="copyable">
      <span class="visually-hidden" id={id}>{label}</span>
      <pre class="block" tabIndex={0} role="region" aria-labelledby={id}><code>{text}</code></pre>
      <Copy text={text} label={texts.copyLabel(label)} />
    </div>
  );
}

export interface Request {
  method: string;
  path: string;
  params?: Params;
  body?: unknown;
  /** The name of a file that the request sends in a form. */
  file?: string;
  headers?: Record<string, string>;
  /**
   * The credential that the command uses: an API key by default, a session token for a person's own
   * data, the demo's header, or none.
   */
  credential?: "key" | "session" | "demo" | "none";
}

const quoteShell = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** Returns a request as a shell command. The API key is read from $PARLEY_API_KEY. */
export function formatCurl(request: Request, baseUrl: string): string {
  const parts = [`curl ${request.params?.["stream"] ? "-N " : ""}${quoteShell(baseUrl + address(request.path, request.params))}`];
  if (request.method !== "GET" && !(request.method === "POST" && (request.body !== undefined || request.file))) parts.push(`-X ${request.method}`);
  if (request.credential === "demo") parts.push("-H 'x-tenant-id: tenant_demo'");
  else if (request.credential === "session") parts.push(`-H "Authorization: Bearer $PARLEY_SESSION"`);
  else if (request.credential !== "none") parts.push(`-H "x-api-key: $PARLEY_API_KEY"`);
  for (const [name, value] of Object.entries(request.headers ?? {})) parts.push(`-H ${quoteShell(name + ": " + value)}`);
  if (request.file) parts.push(`-F ${quoteShell("file=@" + request.file)}`);
  if (request.body !== undefined) parts.push("-H 'content-type: application/json'", `-d ${quoteShell(JSON.stringify(request.body))}`);
  return parts.join(" \\\n  ");
}
