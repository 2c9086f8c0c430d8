// The try-it console of the API reference. Each example becomes a form that sends its request with the browser's session.
import * as texts from "./texts";
import { Words } from "./texts";

const chosen = "parley.organization"; // key in the browser's storage, which the dashboard writes
const maxShown = 200_000; // maximum number of characters of a response that are shown

for (const figure of document.querySelectorAll<HTMLElement>("figure[data-try]")) {
  const open = button(Words.tryIt);
  open.setAttribute("aria-label", texts.tryExample(exampleName(figure)));
  open.addEventListener("click", () => {
    open.remove();
    figure.append(form(figure));
    figure.querySelector<HTMLElement>("form input")?.focus();
  });
  figure.append(open);
}

/**
 * Returns the form of an example. Users can change its target and body before they send the
 * request.
 */
function form(figure: HTMLElement): HTMLFormElement {
  const { method = "GET", target = "/", body = "", headers = "" } = figure.dataset;
  const made = document.createElement("form");
  made.className = "try";
  made.setAttribute("aria-label", texts.request(exampleName(figure)));

  const path = document.createElement("input");
  path.value = target;
  path.spellcheck = false;
  made.append(newLabel(texts.pathAndQuery(method), path));

  let text: HTMLTextAreaElement | null = null;
  if (body !== "") {
    text = document.createElement("textarea");
    text.value = pretty(body);
    text.rows = Math.min(text.value.split("\n").length + 1, 14);
    text.spellcheck = false;
    made.append(newLabel(Words.body, text));
  }

  const send = button(Words.send);
  send.type = "submit";
  const output = document.createElement("pre");
  output.tabIndex = 0;
  output.hidden = true;
  output.setAttribute("aria-label", Words.response);
  const state = document.createElement("p");
  state.setAttribute("role", "status");
  made.append(send, state, output);

  let running: AbortController | null = null;
  made.addEventListener("submit", (event) => {
    event.preventDefault();
    if (running) {
      running.abort();
      return;
    }
    running = new AbortController();
    send.textContent = Words.stop;
    void request(method, path.value, text?.value ?? null, headers, running.signal, output, state).finally(() => {
      running = null;
      send.textContent = Words.send;
    });
  });
  return made;
}

/** Returns the name of an example, which consists of its operation and its title. */
function exampleName(figure: HTMLElement): string {
  const operation = figure.closest("article")?.querySelector("h3")?.textContent ?? "";
  return texts.example(operation, figure.querySelector("figcaption")?.textContent ?? "");
}

/** Sends a request and shows the response while it arrives. */
async function request(
  method: string, target: string, body: string | null, headers: string, signal: AbortSignal, output: HTMLElement, state: HTMLElement,
): Promise<void> {
  output.hidden = true;
  output.textContent = "";
  state.textContent = Words.sending;
  try {
    if (!target.startsWith("/")) throw new Error(Words.pathNeedsSlash);
    const address = URL.canParse(target, location.origin) ? new URL(target, location.origin) : null;
    if (address?.origin !== location.origin) throw new Error(Words.onlyThisService);
    const sent = new Headers(JSON.parse(headers || "{}") as Record<string, string>);
    const organization = readStored();
    if (organization !== null && !sent.has("x-tenant-id")) sent.set("x-organization-id", organization);
    if (body !== null) sent.set("content-type", "application/json");

    const started = performance.now();
    const response = await fetch(address, { method, headers: sent, body, signal, credentials: "same-origin" });
    const took = Math.round(performance.now() - started);
    const answered = texts.responded(response.status, response.statusText, took);
    state.textContent = response.status === 401 ? [answered, Words.signIn].join(" ") : answered;
    output.hidden = false;
    await show(response, output);
  } catch (error) {
    if (signal.aborted) state.textContent = Words.stopped;
    else if (error instanceof TypeError) state.textContent = Words.cantReachService; // fetch throws a TypeError if no response arrives
    else state.textContent = error instanceof Error ? error.message : String(error);
  }
}

/** Shows a response: JSON is indented, and a stream is shown as it arrives. */
async function show(response: Response, output: HTMLElement): Promise<void> {
  let text = "";
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
    text += part.value;
    if (text.length > maxShown) {
      await reader?.cancel();
      output.textContent = [text.slice(0, maxShown), Words.restNotShown].join("\n");
      return;
    }
    output.textContent = text;
  }
  output.textContent = text === "" ? Words.noBody : pretty(text);
}

/** Returns JSON indented, and any other text unchanged. */
function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** Returns the organization that the dashboard shows, or null for the default. */
function readStored(): string | null {
  try {
    return localStorage.getItem(chosen);
  } catch {
    return null; // the browser blocks storage
  }
}

function button(label: string): HTMLButtonElement {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = label;
  return made;
}

function newLabel(label: string, field: HTMLElement): HTMLLabelElement {
  const made = document.createElement("label");
  made.append(label, field);
  return made;
}

export {};
