// Dialogs: the browser's own, which keep the focus and give it back.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Button } from "./button";
import { Curl, type Request } from "./copy";

/** Shown for as long as it is rendered. Esc, the backdrop and the button call onClose. */
export function Dialog({ title, onClose, children, foot, side, firm }: {
  title: string; onClose: () => void; children: ComponentChildren; foot?: ComponentChildren; side?: boolean;
  /** Only a button of its foot closes it: what it shows is shown once. */
  firm?: boolean;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  const pressed = useRef<EventTarget | null>(null); // a selection that ends outside is no click there
  useEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog ref={dialog} class={side ? "side" : undefined} aria-labelledby={heading}
      onCancel={(e) => { e.preventDefault(); if (!firm) onClose(); }} onMouseDown={(e) => { pressed.current = e.target; }}
      onClick={(e) => { if (!firm && e.target === dialog.current && pressed.current === dialog.current) onClose(); }}>
      <div class="dialog-head">
        <h2 id={heading}>{title}</h2>
        {!firm && <Button look="bare" icon="close" label="Close" onClick={onClose} />}
      </div>
      <div class="dialog-body">{children}</div>
      {foot && <div class="dialog-foot">{foot}</div>}
    </dialog>
  );
}

/** A button that asks before it does what cannot be undone. */
export function Confirm({ action, question, detail, onConfirm, look = "danger", icon, label, request }: {
  action: string; question: string; detail?: ComponentChildren; onConfirm: () => Promise<unknown>; look?: "danger" | "bare"; icon?: "trash"; label?: string;
  /** What it sends, to be shown as a command. */
  request?: Request;
}) {
  const [asking, setAsking] = useState(false);
  return (
    <>
      <Button look={look} icon={icon} label={label} onClick={() => setAsking(true)}>{action}</Button>
      {asking && (
        <Dialog title={question} onClose={() => setAsking(false)} foot={
          <>
            {request && <Curl what={label ?? action} request={request} />}
            <Button onClick={() => setAsking(false)}>Keep</Button>
            <Button look="danger" onClick={() => onConfirm().then(() => setAsking(false))}>{action}</Button>
          </>
        }>
          {detail ?? "This cannot be undone."}
        </Dialog>
      )}
    </>
  );
}
