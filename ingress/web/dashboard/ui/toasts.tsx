// Shows the short messages.
import { useEffect, useRef } from "preact/hooks";
import { Words } from "../texts/parts";
import { Button } from "./button";
import { dismiss, useMessages } from "./toast";

export function Toasts() {
  const messages = useMessages();
  const box = useRef<HTMLDivElement>(null);
  const newest = messages.at(-1)?.id;
  useEffect(() => { // moves the messages above a dialog that has opened since
    box.current?.hidePopover?.();
    if (newest !== undefined) box.current?.showPopover?.();
  }, [newest]);
  return (
    <div class="toasts" role="status" aria-live="polite" ref={box} popover="manual">
      {messages.map((m) => (
        <div class={"toast " + m.tone} key={m.id}>
          <span>{m.text}</span>
          <Button look="bare" icon="close" label={Words.dismiss} onClick={() => dismiss(m.id)} />
        </div>
      ))}
    </div>
  );
}
