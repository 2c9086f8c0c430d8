import { equal, ok, type Test } from "../kit/check";
import { newTranscript, load, save, Store, unguessable, type Entry } from "./record";

const newStore = (): Store => new Store("localStorage", `test-${unguessable()}`);

function forget(store: Store): void {
  localStorage.removeItem(store.name("transcript"));
}

export const tests: Test[] = [
  {
    name: "a transcript is loaded as stored",
    run() {
      const store = newStore();
      const transcript = newTranscript();
      transcript.entries.push({ from: "visitor", text: "é😀 <b>", files: ["é.png"] });
      transcript.pending = { key: "k", text: "é", files: [{ fileId: "file_1", name: "é.png" }], answer: "half", citations: [], lastEventId: "1.2" };
      save(store, transcript);
      equal(load(store), transcript);
      forget(store);
      equal(load(store).entries, [], "the transcript was deleted");
    },
  },
  {
    name: "the stored transcript is bounded to its newest part",
    run() {
      const store = newStore();
      const transcript = newTranscript();
      for (let i = 0; i < 200; i++) transcript.entries.push({ from: "visitor", text: String(i) });
      save(store, transcript);
      const texts = load(store).entries.map((e) => e.text);
      equal([texts.length, texts.at(-1)], [60, "199"]);
      const long: Entry = { from: "agent", text: "x".repeat(150_000) };
      transcript.entries.push({ ...long }, { ...long }, { ...long });
      save(store, transcript);
      ok((localStorage.getItem(store.name("transcript"))?.length ?? 0) < 460_000, "too much is stored");
      forget(store);
    },
  },
  {
    name: "data of other programs is not a transcript",
    run() {
      const store = newStore();
      for (const text of ["{", "null", '{"session":"w","entries":[7,{"text":1},{"text":"no name"}]}', "7", '{"session":1}', '{"session":"w","entries":[null]}', '{"session":"w","entries":[{}]}']) {
        localStorage.setItem(store.name("transcript"), text);
        equal(load(store).entries, [], text);
      }
      forget(store);
    },
  },
  {
    name: "invalid entries of a transcript are omitted",
    run() {
      const store = newStore();
      const keep = (value: unknown): void => localStorage.setItem(store.name("transcript"), JSON.stringify(value));
      const cited = { id: 1, type: "web", title: "t", url: "u", citedText: "c", startIndex: 0, endIndex: 1, documentId: null, page: null };
      const agent = { from: "agent", text: "a" };
      keep({ session: "w", entries: [null, { ...agent, citations: [null, 7, {}, { ...cited, url: null }, cited] }, { ...agent, citations: "x" }, { ...agent, note: 7 }, { from: "visitor", text: "v", files: ["a", 7, null] }, { from: "visitor", text: "v", files: {} }], pending: { key: "k" } });
      equal(load(store), { session: "w", entries: [{ ...agent, citations: [cited] }, { ...agent, citations: [] }, { from: "visitor", text: "v", files: ["a"] }, { from: "visitor", text: "v", files: [] }], pending: null });
      const pending = { key: "k", text: "t", answer: "a", lastEventId: "" };
      for (const broken of [{ ...pending, answer: null }, { ...pending, text: 7 }, { ...pending, lastEventId: undefined }]) {
        keep({ session: "w", entries: [], pending: broken });
        equal(load(store).pending, null, JSON.stringify(broken));
      }
      keep({ session: "w", entries: [], pending });
      equal(load(store).pending, { ...pending, files: [], citations: [] });
      forget(store);
    },
  },
  {
    name: "the chat works with blocked or full storage",
    run() {
      const { getItem, setItem } = Storage.prototype;
      const denied = (): never => {
        throw new DOMException("denied", "SecurityError");
      };
      Storage.prototype.getItem = Storage.prototype.setItem = denied;
      try {
        const store = newStore();
        const transcript = newTranscript();
        transcript.entries.push({ from: "visitor", text: "here" });
        save(store, transcript);
        equal(load(store), transcript);
      } finally {
        Object.assign(Storage.prototype, { getItem, setItem });
      }
    },
  },
];
