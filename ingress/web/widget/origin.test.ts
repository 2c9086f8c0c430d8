import { equal, type Test } from "../kit/check";
import { h, icon } from "./dom";
import { own, ownScript } from "./origin";

/** Adds nodes to the page while a check runs. */
function withNodes(nodes: Element[], check: () => void): void {
  own("body").append(...nodes);
  try {
    check();
  } finally {
    nodes.forEach((node) => node.remove());
  }
}

/** Returns a script element that is not executed, because its type is unknown. */
const script = (src: string, data: Record<string, string> = {}): HTMLScriptElement => h("script", { type: "text/none", src, ...data });

export const tests: Test[] = [
  {
    name: "elements of the page do not shadow properties of the document",
    run() {
      const names = ["currentScript", "body", "createElement", "createElementNS", "querySelectorAll", "documentElement"];
      withNodes([...names.map((name) => h("img", { name, alt: "" })), script("https://chat.example/widget.js")], () => {
        equal((document.currentScript as unknown as Element).tagName, "IMG", "the page's element shadows the property");
        equal(ownScript()?.src, "https://chat.example/widget.js");
        equal([own("body").tagName, h("p").tagName, icon("send").nodeName], ["BODY", "P", "svg"]);
      });
    },
  },
  {
    name: "the running script is found among others",
    run() {
      const running = script("https://chat.example/other/name.js");
      const before = Object.getOwnPropertyDescriptor(Document.prototype, "currentScript")!;
      Object.defineProperty(Document.prototype, "currentScript", { configurable: true, get: () => running });
      try {
        withNodes([script("https://evil.example/widget.js", { "data-agent": "ag_1" })], () => equal(ownScript() === running, true));
      } finally {
        Object.defineProperty(Document.prototype, "currentScript", before);
      }
    },
  },
  {
    name: "otherwise only a script named widget.js is used, and none if there are two folders",
    run() {
      const none = [
        script("https://evil.example/x.js?/widget.js"),
        script("https://evil.example/x.js#/widget.js"),
        script("https://evil.example/widget.js.map", { "data-agent": "ag_1" }),
        script("https://evil.example/mywidget.js"),
        script("data:text/javascript,/widget.js"),
        h("img", { src: "data:,/widget.js", alt: "" }),
      ];
      withNodes(none, () => equal(ownScript(), null));
      const ours = script("https://chat.example/a/widget.js?v=1", { "data-agent": "ag_1" });
      withNodes([...none, script("https://chat.example/a/widget.js"), ours], () => equal(ownScript() === ours, true, "the script that names an agent"));
      withNodes([ours, script("https://evil.example/widget.js")], () => equal(ownScript(), null, "the script is ambiguous"));
    },
  },
];
