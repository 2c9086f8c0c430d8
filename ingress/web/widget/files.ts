// widget-files.js: the files of the visitor's next message. widget.js loads this module when a chat
// is opened whose agent takes attachments. Browsers may cache widget.js for days, so changes to
// Host and Files must be compatible.
import { h, picture } from "./dom";
import css from "./files.css";
import { table } from "./files.texts";
import type { Texts } from "./texts";

/** A file that the service has stored. */
export interface Attached {
  fileId: string;
  name: string;
}

/** The parts of the chat that this module uses. */
export interface Host {
  panel: HTMLElement;
  form: HTMLFormElement;
  field: HTMLTextAreaElement;
  texts: Texts;
  /**
   * Returns the request that uploads a file for the open session. If renew is true, the request has
   * a new token.
   */
  request: (name: string, renew: boolean) => Promise<{ url: string; headers: Record<string, string> }>;
}

export interface Files {
  /**
   * Returns the files of the message, or null if the message cannot be sent yet. In that case the
   * chat shows the reason.
   */
  take(): Attached[] | null;
  clear(): void;
}

interface Item {
  file: File;
  node: HTMLElement;
  stored: Attached | null;
  failed: boolean;
  stop: AbortController;
}

/** The outcome of an upload. Status 0 means that there was no response. */
interface Outcome {
  status: number;
  id?: string;
  code?: string;
  after: number | null;
}

const maxFiles = 10;
const maxBytes = 20 << 20;
const accept = "image/png,image/jpeg,image/webp,image/gif,application/pdf,text/*,.docx,.pptx,.xlsx,.epub,.md,.csv,.json,.jsonl";
const clip = "M20 11l-8.5 8.5a5 5 0 0 1-7-7L13 4a3.4 3.4 0 0 1 4.8 4.8l-8.5 8.4a1.7 1.7 0 0 1-2.4-2.4L15 7";
const sheet = "M6 3h8l4 4v14H6z M14 3v4h4";
const cross = "M6 6l12 12M18 6L6 18";

/** Sends a file, and calls progress with the fraction sent so far, from 0 to 1. */
function post(url: string, headers: Record<string, string>, file: File, progress: (part: number) => void, signal: AbortSignal): Promise<Outcome> {
  return new Promise((resolve) => {
    const request = new XMLHttpRequest(); // fetch does not report progress
    request.open("POST", url);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.setRequestHeader("Content-Type", file.type || "application/octet-stream");
    request.upload.onprogress = (event) => {
      if (event.lengthComputable) progress(event.loaded / event.total);
    };
    request.onerror = request.onabort = () => resolve({ status: 0, after: null });
    request.onload = () => {
      let body: Record<string, unknown> = {};
      try {
        body = Object(JSON.parse(request.responseText)) as Record<string, unknown>;
      } catch {
        // The response is not JSON of the service. It may be a page of a proxy, for example. Only
        // the status is known.
      }
      const after = Number.parseInt(request.getResponseHeader("Retry-After") ?? "", 10);
      resolve({ status: request.status, id: body.id as string, code: body.code as string, after: Number.isNaN(after) ? null : after });
    };
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}

/** Draws a small picture of an image. A page's policy may forbid images, but not a canvas. */
async function preview(file: File, box: HTMLElement): Promise<void> {
  if (!/^image\/(png|jpeg|gif|webp)$/.test(file.type)) return;
  const image = await createImageBitmap(file);
  const size = 80;
  const scale = Math.max(size / image.width, size / image.height);
  const canvas = h("canvas", { width: size, height: size, "aria-hidden": "true" });
  canvas.getContext("2d")?.drawImage(image, (size - image.width * scale) / 2, (size - image.height * scale) / 2, image.width * scale, image.height * scale);
  image.close();
  box.replaceChildren(canvas);
}

/**
 * Returns the files in a paste that must be attached. If the paste contains both plain and HTML
 * text, no file must be attached, because office programs add a picture to the text that they copy.
 */
function pastedFiles(from: DataTransfer | null): File[] {
  const kinds = [...(from?.types ?? [])];
  return kinds.includes("text/plain") && kinds.includes("text/html") ? [] : [...(from?.files ?? [])];
}

/** Adds to a chat a button for files, a list of files, and handlers for paste and drop. */
export function start({ panel, form, field, texts, request }: Host): Files {
  const say = (text: keyof typeof table, ...values: (string | number)[]) => texts.fill(table[text], ...values);
  let items: Item[] = [];
  let last = Promise.resolve(); // the previous upload; uploads run one at a time, because the service limits the uploads of a visitor

  const list = h("ul", { class: "attached", "aria-label": say("attached") });
  const note = h("p", { class: "attach-note", role: "status" });
  const input = h("input", { type: "file", multiple: true, hidden: true, accept, "aria-label": say("attach") });
  const button = h("button", { type: "button", class: "bare attach", "aria-label": say("attach") }, picture(clip));
  form.before(list, note);
  form.prepend(button, input);
  const style = new CSSStyleSheet();
  style.replaceSync(css);
  (panel.getRootNode() as ShadowRoot).adoptedStyleSheets.push(style);

  const show = (text: string) => (note.textContent = text);

  function explain({ status, code, after }: Outcome): [text: string, again: boolean] {
    if (status === 400) return [say("unreadable"), false];
    if (status === 413) return [say("large"), false];
    if (status === 415) return [say("type"), false];
    if (status === 429) return code === "budget_exceeded" ? [say("full"), false] : [say("tooMany", texts.after(after)), true];
    if (status === 0) return [say("unreachable"), true];
    return status >= 500 ? [say("busy", texts.after(after)), true] : [say("gone"), false];
  }

  async function upload(item: Item, progress: (part: number) => void): Promise<Outcome> {
    const name = item.file.name.replace(/\p{C}/gu, "").slice(0, 255);
    let outcome: Outcome = { status: 0, after: null };
    for (const renew of [false, true]) {
      try {
        const { url, headers } = await request(name, renew);
        outcome = await post(url, headers, item.file, progress, item.stop.signal);
      } catch (cause) {
        const { status = 0, code, retryAfter = null } = cause as { status?: number; code?: string; retryAfter?: number | null }; // the token was refused
        return { status, code, after: retryAfter };
      }
      if (outcome.status !== 401) break;
    }
    return outcome;
  }

  function send(item: Item): void {
    const { name } = item.file;
    const bar = h("progress", { max: 1, value: 0, "aria-label": say("sending", name) });
    item.node.append(bar);
    last = last.then(async () => {
      if (item.stop.signal.aborted) return;
      const outcome = await upload(item, (part) => (bar.value = part));
      bar.remove();
      if (outcome.id !== undefined && outcome.status === 201) item.stored = { fileId: outcome.id, name };
      else if (!item.stop.signal.aborted) fail(item, ...explain(outcome));
      if (note.textContent === say("wait")) show("");
    });
  }

  function fail(item: Item, text: string, again: boolean): void {
    item.failed = true;
    const fault = h("p", { class: "fault", role: "alert" }, text);
    item.node.append(fault);
    list.scrollTop = list.scrollHeight;
    if (!again) return;
    const retry = h("button", { type: "button", class: "bare", "aria-label": say("againWith", item.file.name) }, say("again"));
    item.node.append(retry);
    retry.onclick = () => {
      fault.remove();
      retry.remove();
      item.failed = false;
      send(item);
      field.focus();
    };
  }

  function size(bytes: number): string {
    const [unit, value] = bytes < 1 << 20 ? ["kilobyte", Math.ceil(bytes / 1024)] : ["megabyte", bytes / 1048576];
    return new Intl.NumberFormat(texts.locale, { style: "unit", unit: unit as string, maximumFractionDigits: 1 }).format(value as number);
  }

  function addOne(file: File): void {
    const box = h("span", { class: "picture" }, picture(sheet));
    const remove = h("button", { type: "button", class: "bare", "aria-label": say("remove", file.name) }, picture(cross));
    const name = h("span", { class: "name" }, file.name, " ", h("span", { class: "quiet" }, size(file.size)));
    const item: Item = { file, node: h("li", null, box, name, remove), stored: null, failed: false, stop: new AbortController() };
    remove.onclick = () => {
      item.stop.abort();
      items = items.filter((other) => other !== item);
      item.node.remove();
      show("");
      field.focus();
    };

    items.push(item);
    list.append(item.node);
    preview(file, box).catch(() => undefined); // the file is not an image: its icon stays
    if (file.size === 0) fail(item, say("empty"), false);
    else if (file.size > maxBytes) fail(item, say("large"), false);
    else send(item);
  }

  function add(files: File[]): void {
    const room = maxFiles - items.length;
    files.slice(0, room).forEach(addOne);
    show(files.length > room ? say("most", maxFiles) : "");
    list.scrollTop = list.scrollHeight;
    field.focus();
  }

  button.onclick = () => input.click();
  input.onchange = () => {
    add([...(input.files ?? [])]);
    input.value = ""; // lets the visitor choose the same file again
  };
  field.addEventListener("paste", (event) => {
    const files = pastedFiles(event.clipboardData);
    if (files.length === 0) return;
    event.preventDefault();
    add(files);
  });

  const over = (on: boolean) => {
    panel.classList.toggle("over", on);
    show(on ? say("drop") : "");
  };
  const drag = (event: DragEvent, act: () => void) => {
    if (!event.dataTransfer?.types.some((type) => type === "Files")) return;
    event.preventDefault(); // otherwise the browser would leave the page and open the file
    act();
  };
  panel.addEventListener("dragover", (event) => drag(event, () => over(true)));
  panel.addEventListener("dragleave", (event) => {
    if (!panel.contains(event.relatedTarget as Node | null)) over(false);
  });
  panel.addEventListener("drop", (event) => drag(event, () => {
    over(false);
    add([...(event.dataTransfer?.files ?? [])]);
  }));

  return {
    take() {
      const problem = items.some((i) => i.failed) ? "failed" : items.some((i) => !i.stored) ? "wait" : null;
      show(problem === null ? "" : say(problem));
      return problem === null ? items.map((i) => i.stored!) : null;
    },
    clear() {
      for (const { stop } of items) stop.abort();
      items = [];
      list.replaceChildren();
      show("");
    },
  };
}
