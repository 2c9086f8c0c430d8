import { equal, type Test } from "../kit/check";
import { lookFirst, type ApiError } from "./api";
import { upload } from "./files";

/** A request whose end the test controls. */
class Request {
  static whole = false;
  static answer: { status: number; body: string } | null = null;
  upload = { onprogress: (_: ProgressEvent) => {}, onload: () => {} };
  onload = () => {};
  onerror = () => {};
  status = 0;
  responseText = "";
  open() {}
  abort() {}
  setRequestHeader() {}
  getResponseHeader = () => null;
  send() {
    if (Request.whole) this.upload.onload();
    if (Request.answer === null) return this.onerror();
    this.status = Request.answer.status;
    this.responseText = Request.answer.body;
    this.onload();
  }
}

const sendFile = (): Promise<unknown> =>
  upload("POST", "/api/knowledge", {}, new File(["text"], "a.txt"), () => {}, new AbortController().signal).catch((cause: ApiError) => `${cause.status} ${cause.detail}`);

export const tests: Test[] = [
  {
    name: "an upload that breaks reports whether the whole file was sent",
    run: async () => {
      const real = globalThis.XMLHttpRequest;
      globalThis.XMLHttpRequest = Request as unknown as typeof XMLHttpRequest;
      try {
        equal(await sendFile(), "0 Connection lost before the whole file was sent. Try again.");
        Request.whole = true;
        equal(await sendFile(), `0 ${lookFirst}`, "the response was lost");
        Request.answer = { status: 200, body: "<p>Sign in to this network</p>" };
        equal(await sendFile(), `0 ${lookFirst}`, "another server responded");
        Request.answer = { status: 409, body: `{"code":"document_exists","detail":"There is one."}` };
        equal(await sendFile(), "409 There is one.");
        Request.answer = { status: 201, body: `{"id":"doc_1"}` };
        equal(await sendFile(), { id: "doc_1" });
      } finally {
        globalThis.XMLHttpRequest = real;
      }
    },
  },
];
