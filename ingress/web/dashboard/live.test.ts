import { h, render, type ComponentType } from "preact";
import { equal, type Test } from "../kit/check";
import { get, lookFirst, post, type ApiError } from "./api";
import { useConnected, useLive } from "./live";
import { useQuery } from "./query";

type Answer = () => Promise<Response>;

const away: Answer = () => Promise.reject(new TypeError("connection refused"));
const broken: Answer = () => Promise.resolve(Response.json({ code: "unavailable", detail: "Later." }, { status: 503 }));
const refused: Answer = () => Promise.resolve(Response.json({ code: "not_found", detail: "None." }, { status: 404 }));
const foreign: Answer = () => Promise.resolve(new Response("<p>Sign in to this network</p>"));
const cut: Answer = () => Promise.resolve(new Response(new ReadableStream({ start: (to) => to.error(new TypeError("cut")) })));
const found: Answer = () => Promise.resolve(Response.json({ name: "here" }));

/**
 * Returns a stream of changes that reports that it is ready, and a function that breaks the stream.
 */
function stream(): { answer: Answer; end: () => void } {
  let end = () => {};
  const body = new ReadableStream<Uint8Array>({
    start: (to) => {
      to.enqueue(new TextEncoder().encode("event: ready\ndata: {}\n\n"));
      end = () => to.close();
    },
  });
  return { answer: () => Promise.resolve(new Response(body, { headers: { "Content-Type": "text/event-stream" } })), end: () => end() };
}

/**
 * Runs a test with a page and a fake service. The service returns the given responses in order, and
 * then repeats the last one.
 */
async function withService(answers: Record<string, Answer[]>, test: (page: HTMLElement, asked: (path: string) => number) => Promise<void>, Page: ComponentType): Promise<void> {
  const real = globalThis.fetch;
  const asked = new Map<string, number>();
  const streams: AbortSignal[] = [];
  globalThis.fetch = (input, init) => {
    const path = String(input).split("?", 1)[0] ?? "";
    if (path === "/api/events" && init?.signal) streams.push(init.signal);
    const n = asked.get(path) ?? 0;
    asked.set(path, n + 1);
    return (answers[path]?.[n] ?? answers[path]?.at(-1) ?? away)();
  };
  const page = document.createElement("div");
  document.body.append(page);
  try {
    render(h(Page, null), page);
    await test(page, (path) => asked.get(path) ?? 0);
  } finally {
    render(null, page);
    page.remove();
    await until(() => streams.every((s) => s.aborted)).finally(() => (globalThis.fetch = real)); // the page closes its streams a moment later
  }
}

/** Waits until the page shows a text. It checks after each change. */
const says = (page: HTMLElement, words: string): Promise<void> =>
  new Promise((resolve, reject) => {
    const look = () => {
      if (!page.textContent?.includes(words)) return;
      clearTimeout(timer);
      watch.disconnect();
      resolve();
    };
    const watch = new MutationObserver(look);
    const timer = setTimeout(() => reject(new Error(`page shows ${page.textContent}, want ${words}`)), 10_000);
    watch.observe(page, { childList: true, subtree: true, characterData: true });
    look();
  });

/** Waits until a condition is true, checking it on each frame. */
async function until(so: () => boolean): Promise<void> {
  const end = performance.now() + 10_000;
  while (!so()) {
    if (performance.now() > end) throw new Error(`condition was never true: ${so}`);
    await new Promise(requestAnimationFrame);
  }
}

function Shown() {
  const query = useQuery<{ name: string }>("thing", (signal) => get("/thing", {}, signal));
  return h("p", null, query.data?.name ?? query.error?.detail ?? "nothing yet");
}

function Follower() {
  const query = useQuery<{ name: string }>("thing", (signal) => get("/thing", {}, signal));
  useLive("runs", query.reload);
  return h("p", null, useConnected() ? "Live" : "Reconnecting");
}

export const tests: Test[] = [
  {
    name: "a failed load is repeated when the stream of changes reconnects",
    run: () => withService({ "/thing": [away, found], "/api/events": [away, stream().answer] }, (page) => says(page, "here"), Shown),
  },
  {
    name: "a load that the service refused with 503 is repeated, too",
    run: () => withService({ "/thing": [broken, found], "/api/events": [broken, stream().answer] }, (page) => says(page, "here"), Shown),
  },
  {
    name: "a load whose response was cut off is repeated, too",
    run: () => withService({ "/thing": [cut, found], "/api/events": [away, stream().answer] }, (page) => says(page, "here"), Shown),
  },
  {
    name: "a load with a response of another server, for example a captive portal, is repeated, too",
    run: () => withService({ "/thing": [foreign, found], "/api/events": [away, stream().answer] }, (page) => says(page, "here"), Shown),
  },
  {
    name: "a failed load is repeated when the browser is online again",
    run: () =>
      withService({ "/thing": [away, found], "/api/events": [stream().answer] }, async (page) => {
        await says(page, "Can’t reach the service");
        await new Promise((resolve) => setTimeout(resolve, 200)); // by then the page listens to changes
        dispatchEvent(new Event("online"));
        await says(page, "here");
      }, Shown),
  },
  {
    name: "a load that was refused is not repeated and opens no stream",
    run: () =>
      withService({ "/thing": [refused, found], "/api/events": [stream().answer] }, async (page, asked) => {
        await says(page, "None.");
        dispatchEvent(new Event("online"));
        await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
        equal([page.textContent, asked("/thing"), asked("/api/events")], ["None.", 1, 0]);
      }, Shown),
  },
  {
    name: "a page shows that it is disconnected, and reloads when it is connected again",
    run: async () => {
      const first = stream();
      await withService({ "/thing": [found], "/api/events": [first.answer, away, stream().answer] }, async (page, asked) => {
        await says(page, "Live");
        await until(() => asked("/api/events") > 0);
        const before = asked("/thing");
        first.end();
        await says(page, "Reconnecting");
        await says(page, "Live");
        await until(() => asked("/thing") > before);
      }, Follower);
    },
  },
  {
    name: "a change with an unknown outcome advises to check before a retry",
    run: async () => {
      for (const answer of [cut, away]) {
        await withService({ "/thing": [answer] }, async () => {
          equal(await post("/thing").catch((cause: ApiError) => [cause.status, cause.detail]), [0, lookFirst]);
        }, () => null);
      }
    },
  },
];
