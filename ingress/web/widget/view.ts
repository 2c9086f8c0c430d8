// The visible chat: a button with a panel, or only the panel, inside the page.
import { entry } from "./answer";
import { h, icon } from "./dom";
import type { Attached, Files } from "./files";
import type { Entry } from "./record";
import type { Texts } from "./texts";

export interface Look {
  title: string;
  greeting: string;
  inline: boolean;
  /** Questions that an empty chat suggests. */
  suggestions: string[];
  /** The language of the page, in which agents are expected to answer. */
  language: string;
}
export interface Wishes {
  send: (text: string, files?: Attached[]) => boolean;
  renew: () => void;
  /** Stops the pending answer. */
  stop: () => void;
  opened: (open: boolean) => void;
}

/**
 * Milliseconds after sending in which Stop is ignored. Stop replaces Send, so the second click of a
 * double click on Send would stop the answer.
 */
const moment = 500;

const narrow = matchMedia("(max-width: 480px)");
const touch = matchMedia("(pointer: coarse)"); // a field with the focus opens a keyboard that covers the panel

export class View {
  readonly panel: HTMLElement;
  readonly form: HTMLFormElement;
  readonly field: HTMLTextAreaElement;
  /** The files of the next message. Set after the module for files is loaded. */
  files: Files | null = null;
  private readonly launcher = h("button", { type: "button", class: "launcher", "aria-controls": "panel", "aria-haspopup": "dialog" });
  private readonly log: HTMLElement;
  private readonly state = h("p", { class: "status" });
  private readonly said = h("div", { class: "unseen", "aria-live": "polite" });
  private readonly button: HTMLButtonElement;
  private unread = 0;
  private since = 0; // when the pending answer began, or 0
  private frame = 0;
  private pause: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly look: Look,
    private readonly texts: Texts,
    private readonly wishes: Wishes,
  ) {
    this.log = h("div", { class: "log", role: "log", "aria-live": "off", "aria-label": texts.say("messages"), tabindex: 0, lang: look.language || texts.language });
    this.field = h("textarea", {
      rows: 1, maxlength: 80000, "aria-label": texts.say("message"), placeholder: texts.say("write"), enterkeyhint: "send", // < 256 KiB
    });
    this.button = h("button", { type: "submit", class: "send" });
    this.wait(false);
    this.form = h("form", null, this.field, this.button);
    const renew = h("button", { type: "button", class: "bare" }, texts.say("newChat"));
    const head = h("header", null, h("h2", { id: "title" }, look.title), renew);
    const props = { class: look.inline ? "panel inline" : "panel", id: "panel", "aria-labelledby": "title", lang: texts.language };
    this.panel = h(look.inline ? "section" : "dialog", props, head, this.log, this.state, this.form, this.said);

    renew.onclick = () => {
      wishes.renew();
      this.files?.clear(); // the files were uploaded for the old session
      this.field.focus();
    };

    this.form.onsubmit = (event) => {
      event.preventDefault();
      if (this.since === 0) this.submit();
      else if (performance.now() - this.since > moment) wishes.stop();
    };

    this.field.onkeydown = (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.submit();
    };

    this.field.oninput = () => this.measure();
    if (!look.inline) this.float(head);
    this.name();
  }

  get nodes(): Node[] {
    return this.look.inline ? [this.panel] : [this.launcher, this.panel];
  }

  private get dialog(): HTMLDialogElement | null {
    return this.panel instanceof HTMLDialogElement ? this.panel : null;
  }

  private float(head: HTMLElement): void {
    const close = h("button", { type: "button", class: "bare", "aria-label": this.texts.say("closePanel") }, icon("close"));
    head.append(close);
    close.onclick = () => this.close();
    this.launcher.onclick = () => (this.dialog?.open ? this.close() : this.open(true));
    this.dialog!.oncancel = (event) => {
      event.preventDefault();
      this.close();
    };
    this.panel.onkeydown = (event) => {
      if (event.key === "Escape") this.close();
    };
    narrow.onchange = () => {
      if (!this.dialog?.open) return;
      this.dialog.close();
      this.open(false);
    };
  }

  /** Opens the panel. In a narrow window it covers the whole window and is modal. */
  open(focus: boolean): void {
    const { dialog } = this;
    if (!dialog || dialog.open) return;
    if (narrow.matches) dialog.showModal();
    else dialog.open = true; // unlike show(), this does not take the focus from the page
    this.unread = 0;
    this.name();
    if (!this.log.querySelector(".suggested")) this.log.scrollTop = this.log.scrollHeight; // an empty chat begins with the greeting
    if (focus && !touch.matches) this.field.focus();
    this.wishes.opened(true);
  }

  close(): void {
    if (!this.dialog?.open) return;
    this.dialog.close();
    this.name();
    this.launcher.focus();
    this.wishes.opened(false);
  }

  private name(): void {
    const open = this.dialog?.open ?? false;
    this.launcher.setAttribute("aria-expanded", String(open));
    const name = this.texts.say(open ? "close" : "open", this.look.title);
    this.launcher.setAttribute("aria-label", this.unread > 0 ? `${name}, ${this.texts.say("unread", this.unread)}` : name);
    this.launcher.classList.toggle("unread", this.unread > 0);
    this.launcher.replaceChildren(icon(open ? "close" : "chat"));
  }

  private submit(): void {
    const files = this.files ? this.files.take() : [];
    if (!files || !this.wishes.send(this.field.value, files)) return;
    this.files?.clear();
    this.field.value = "";
    this.measure();
  }

  private measure(): void {
    this.field.style.height = "auto";
    this.field.style.height = `${Math.min(this.field.scrollHeight + 2, 160)}px`;
  }

  /** Shows all entries of a transcript. */
  show(entries: Entry[]): void {
    this.log.replaceChildren();
    if (this.look.greeting !== "") this.log.append(entry({ from: "agent", text: this.look.greeting }, this.texts));
    this.log.append(...entries.map((e) => entry(e, this.texts)));
    if (entries.length === 0) this.suggest();
    this.status("");
    this.said.textContent = "";
    this.log.scrollTop = this.log.scrollHeight;
  }

  private suggest(): void {
    const asked = this.look.suggestions.map((text) => {
      const button = h("button", { type: "button" }, text);
      button.onclick = () => {
        if (this.wishes.send(text)) this.field.focus();
      };
      return h("li", null, button);
    });
    if (asked.length > 0) this.log.append(h("ul", { class: "suggested", "aria-label": this.texts.say("suggestions") }, asked));
  }

  /** Adds the visitor's message. */
  add(said: Entry): void {
    this.append(entry(said, this.texts));
    this.log.scrollTop = this.log.scrollHeight;
  }

  private append(node: HTMLElement): void {
    this.log.querySelector(".problem,.suggested")?.remove();
    this.log.append(node);
  }

  /**
   * Shows a complete answer. Screen readers announce the answer. If the panel is closed, the answer
   * counts as unread.
   */
  finish(node: HTMLElement, draw: () => void): void {
    const near = this.near();
    if (!node.isConnected) this.append(node);

    draw();
    if (near) this.log.scrollTop = Math.max(this.log.scrollTop, node.offsetTop - 48);

    this.said.textContent = node.textContent;
    if (this.dialog && !this.dialog.open) this.unread++;
    this.name();
  }

  private near(): boolean {
    return this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 80;
  }

  /**
   * Returns a function that redraws a growing node. The node is redrawn at most once per frame. If
   * drawing takes long, it is redrawn less often, so that drawing uses at most a quarter of the
   * page's time.
   */
  newRedraw(node: HTMLElement, draw: () => void): () => void {
    let waiting = false;
    let next = 0;
    const drawn = (began: number): void => {
      waiting = false;
      const near = this.near();
      if (!node.isConnected) this.append(node);
      draw();
      if (near) this.log.scrollTop = this.log.scrollHeight;
      const ended = performance.now();
      next = ended + 3 * (ended - began);
    };
    const ask = (): void => void (this.frame = requestAnimationFrame(() => drawn(performance.now())));
    return () => {
      if (waiting) return;
      waiting = true;
      const left = next - performance.now();
      if (left > 20) this.pause = setTimeout(ask, left);
      else ask();
    };
  }

  /** Replaces the button Send by Stop while an answer is pending. */
  wait(on: boolean): void {
    clearTimeout(this.pause);
    cancelAnimationFrame(this.frame);
    this.since = on ? performance.now() : 0;
    const name = on ? "stop" : "send";
    this.button.setAttribute("aria-label", this.texts.say(name));
    this.button.replaceChildren(icon(name));
    this.log.setAttribute("aria-busy", String(on));
  }

  /** Shows in one line what the agent is doing. */
  status(text: string): void {
    if (this.state.textContent === text) return;
    this.state.textContent = text;
    this.state.classList.toggle("busy", text !== "");
    if (text !== "" && text !== this.texts.say("thinking")) this.said.textContent = text;
  }

  /** Shows an error, with a retry button that is enabled after some seconds. */
  problem(text: string, again: (() => void) | null, seconds: number): void {
    const box = h("div", { class: "problem" }, h("p", null, text));
    if (again) {
      const button = h("button", { type: "button", disabled: seconds > 0 }, this.texts.say("tryAgain"));
      setTimeout(() => (button.disabled = false), seconds * 1000);
      button.onclick = () => {
        box.remove();
        this.field.focus();
        again();
      };
      box.append(button);
    }
    this.log.append(box);
    this.log.scrollTop = this.log.scrollHeight;
    this.said.textContent = text;
  }
}
