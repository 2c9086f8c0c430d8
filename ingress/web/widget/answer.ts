// Renders an entry of the transcript.
import { LiveMarkdown, plain, type Citation } from "../kit/markdown";
import { h } from "./dom";
import type { Entry } from "./record";
import type { Texts } from "./texts";

const web = (c: Citation): boolean => /^https?:\/\//i.test(c.url) && URL.canParse(c.url) && c.documentId === null;

/** An answer's text and its sources. The text may still be growing. */
export class Answer {
  readonly node: HTMLElement;
  private readonly text = h("div", { class: "answer" });
  private readonly sources: HTMLElement;
  private markdown: LiveMarkdown<Node> | null = null;
  private known = -1;
  private ids: number[] = []; // the ids of the sources, in the order of their first citation

  constructor(private readonly texts: Texts) {
    this.node = h("div", { class: "entry agent" }, h("span", { class: "unseen" }, texts.say("answer")), this.text);
    this.sources = h("ol", { class: "sources", "aria-label": texts.say("sources") });
  }

  /**
   * Shows the text so far. If open is true, more text follows. A note, if not empty, explains why
   * the answer is incomplete. The note looks like an error, unless the answer was stopped on
   * purpose.
   */
  show(text: string, citations: Citation[], open: boolean, note = "", stopped = false): void {
    try {
      this.draw(text, citations, open);
    } catch (cause) {
      console.error("agent-chat: cannot render an answer, so it is shown as plain text:", cause); // a rendering error must not end the chat
      this.known = -1;
      this.sources.remove();
      this.text.replaceChildren(h("p", { class: "plain" }, text));
    }
    if (note !== "") this.node.append(h("p", { class: stopped ? "note calm" : "note" }, note));
  }

  private draw(text: string, citations: Citation[], open: boolean): void {
    if (this.known !== citations.length) {
      this.known = citations.length;
      this.markdown = new LiveMarkdown<Node>({ h, labels: this.texts.labels, citations, cite: (c) => this.reference(c), lower: 2 });
      this.list(citations);
    }
    this.exchange(this.markdown!.update(text, open));
  }

  /** Replaces the child nodes of an element. Nodes that are already in place stay untouched. */
  private exchange(nodes: Node[]): void {
    let same = 0;
    while (same < nodes.length && this.text.childNodes[same] === nodes[same]) same++;
    while (this.text.childNodes.length > same) this.text.lastChild!.remove();
    for (const node of nodes.slice(same)) this.text.append(node);
  }

  private reference(c: Citation): Node {
    // The number is a link and not a button, because browsers may break the line before a button.
    const number = this.ids.indexOf(c.id) + 1;
    const link = h("a", { href: "#", class: "cite", "aria-label": this.texts.say("source", number, c.title) }, String(number));
    link.onclick = (event) => {
      event.preventDefault();
      const source = this.sources.querySelector<HTMLElement>(`[data-source="${number}"]`);
      source?.focus();
      source?.scrollIntoView({ block: "nearest" });
    };
    return link;
  }

  private list(citations: Citation[]): void {
    this.ids = [...new Set(citations.map((c) => c.id))];
    this.sources.replaceChildren(...this.ids.map((id, i) => source(citations.filter((c) => c.id === id), i + 1, this.texts)));
    if (citations.length > 0) this.node.append(this.sources);
    else this.sources.remove();
  }
}

function source(all: Citation[], number: number, texts: Texts): Node {
  const c = all[0]!;
  const title = plain(c.title || c.url);
  const children: (Node | string)[] = [h("span", { class: "number", "aria-hidden": "true" }, String(number))];
  if (web(c)) {
    children.push(h("a", { href: c.url, target: "_blank", rel: "noopener noreferrer" }, title));
    children.push(h("span", { class: "quiet" }, new URL(c.url).host));
  } else {
    children.push(h("span", null, title));
    if (c.page !== null) children.push(h("span", { class: "quiet" }, texts.say("page", c.page)));
    for (const quote of new Set(all.map((one) => one.citedText))) children.push(h("q", null, plain(quote)));
  }
  return h("li", { tabindex: -1, "data-source": number }, children);
}

/** Renders a visitor's message or an answer. */
export function entry({ from, text, files = [], citations = [], note, stopped }: Entry, texts: Texts): HTMLElement {
  if (from === "visitor") {
    const names = files.length > 0 ? [h("ul", { class: "files", "aria-label": texts.say("attached") }, files.map((name) => h("li", null, name)))] : [];
    return h("div", { class: "entry visitor" }, h("span", { class: "unseen" }, texts.say("you")), text === "" ? "" : h("p", null, text), names);
  }
  const answer = new Answer(texts);
  answer.show(text, citations, false, note, stopped);
  return answer.node;
}

const namedTools = ["webSearch", "knowledge", "codeExecution"] as const;

/** Describes a tool call in one line. */
export function activity(tool: string, texts: Texts): string {
  const known = namedTools.find((name) => name === tool);
  return known ? texts.say(known) : texts.say("using", tool);
}
