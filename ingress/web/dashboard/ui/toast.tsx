// Short messages about what was just done, read out by screen readers.
import { useEffect, useRef, useState } from "preact/hooks";
import { Button } from "./button";

interface Message {
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

const dismiss = (id: number): void => update(messages.filter((m) => m.id !== id));

/** Says that something was done, or was not. Good news leaves by itself; bad news stays until it is dismissed. */
export function toast(text: string, tone: "good" | "bad" = "good"): void {
  const id = ++last;
  update([...messages.filter((m) => m.text !== text), { id, text, tone }].slice(-4));
  if (tone === "good") setTimeout(() => dismiss(id), 6000);
}

export function Toasts() {
  const [, redraw] = useState(0);
  useEffect(() => {
    const tell = () => redraw((n) => n + 1);
    changed.addEventListener("change", tell);
    return () => changed.removeEventListener("change", tell);
  }, []);
  const box = useRef<HTMLDivElement>(null);
  const newest = messages.at(-1)?.id;
  useEffect(() => { // above a dialog that has opened meanwhile
    box.current?.hidePopover?.();
    if (newest !== undefined) box.current?.showPopover?.();
  }, [newest]);
  return (
    <div class="toasts" role="status" aria-live="polite" ref={box} popover="manual">
      {messages.map((m) => (
        <div class={"toast " + m.tone} key={m.id}>
          <span>{m.text}</span>
          <Button look="bare" icon="close" label="Dismiss" onClick={() => dismiss(m.id)} />
        </div>
      ))}
    </div>
  );
}
