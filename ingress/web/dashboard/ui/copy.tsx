// What people take away: text to copy, and each action as a command.
import { useEffect, useId, useState } from "preact/hooks";
import { address, type Params } from "../api";
import { Button } from "./button";
import { toast } from "./toast";

/** Copies text; says so in place. */
export function Copy({ text, label = "Copy", words = "Copy" }: { text: string; label?: string; words?: string }) {
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
      toast("The browser did not let this page copy. Select the text and copy it yourself.", "bad");
    }
  };
  return <Button look="bare" icon={done ? "check" : "copy"} label={done ? "Copied" : label} onClick={copy}>{done ? "Copied" : words}</Button>;
}

/** Text to take away, such as a command or a snippet. */
export function Snippet({ text, label }: { text: string; label: string }) {
  const id = useId();
  return (
    <div class="copyable">
      <span class="visually-hidden" id={id}>{label}</span>
      <pre class="block" tabIndex={0} role="region" aria-labelledby={id}><code>{text}</code></pre>
      <Copy text={text} label={`Copy: ${label}`} />
    </div>
  );
}

export interface Request {
  method: string;
  path: string;
  params?: Params;
  body?: unknown;
  /** Files to send as a form, by the names that the command shows. */
  file?: string;
  headers?: Record<string, string>;
  /** An API key unless said: some things are a person's own, and take a session token; the demo's take its header, others nothing. */
  credential?: "key" | "session" | "demo" | "none";
}

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** A request as a command for a shell, with the key in $PARLEY_API_KEY. */
export function curlOf(request: Request, baseUrl: string): string {
  const parts = [`curl ${quoted(baseUrl + address(request.path, request.params))}`];
  if (request.method !== "GET" && !(request.method === "POST" && (request.body !== undefined || request.file))) parts.push(`-X ${request.method}`);
  if (request.credential === "demo") parts.push("-H 'x-tenant-id: tenant_demo'");
  else if (request.credential === "session") parts.push(`-H "Authorization: Bearer $PARLEY_SESSION"`);
  else if (request.credential !== "none") parts.push(`-H "x-api-key: $PARLEY_API_KEY"`);
  for (const [name, value] of Object.entries(request.headers ?? {})) parts.push(`-H ${quoted(name + ": " + value)}`);
  if (request.file) parts.push(`-F ${quoted("file=@" + request.file)}`);
  if (request.body !== undefined) parts.push("-H 'content-type: application/json'", `-d ${quoted(JSON.stringify(request.body))}`);
  return parts.join(" \\\n  ");
}
