// Short messages about the result of an action, announced by screen readers.
import { useEffect, useState } from "preact/hooks";

export interface Message {
  id: number;
  text: string;
  tone: "good" | "bad";
}

let messages: Message[] = [];
let last = 0;
const changed = new EventTarget();

function update(next: Message[]): void {
  messages = next;
  changed.dispatchEvent(new Event("change"));
}

/** Removes a message. */
export const dismiss = (id: number): void => update(messages.filter((m) => m.id !== id));

/**
 * Shows the result of an action. The message of a success disappears after 6 seconds, and that of a
 * failure when it is dismissed.
 */
export function toast(text: string, tone: "good" | "bad" = "good"): void {
  const id = ++last;
  update([...messages.filter((m) => m.text !== text), { id, text, tone }].slice(-4));
  if (tone === "good") setTimeout(() => dismiss(id), 6000);
}

/** Returns the visible messages. */
export function useMessages(): Message[] {
  const [, redraw] = useState(0);
  useEffect(() => {
    const update = () => redraw((n) => n + 1);
    changed.addEventListener("change", update);
    return () => changed.removeEventListener("change", update);
  }, []);
  return messages;
}
