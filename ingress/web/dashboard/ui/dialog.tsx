// Dialogs: the browser's own, which keep the focus and give it back.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Button } from "./button";

type Field = HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement;

const isField = (at: EventTarget | null): at is Field =>
  (at instanceof HTMLInputElement && at.type !== "search") || at instanceof HTMLTextAreaElement || at instanceof HTMLSelectElement;

const stateOf = (field: Field): string => (field instanceof HTMLInputElement && /^(checkbox|radio)$/.test(field.type) ? String(field.checked) : field.value);

/** The first field that was refused, also of several that were refused together. */
function faulty(dialog: HTMLElement | null): HTMLElement | null {
  for (const fault of dialog?.querySelectorAll<HTMLElement>('[aria-invalid="true"], fieldset > .fault') ?? []) {
    const field = isField(fault) ? fault : fault.parentElement?.querySelector("input");
    if (field) return field;
  }
  return null;
}

/** Shown for as long as it is rendered. Esc, the backdrop and the button call onClose, and ask before what was typed is lost. */
export function Dialog({ title, onClose, children, foot, side, firm, kept }: {
  title: string; onClose: () => void; children: ComponentChildren; foot?: ComponentChildren; side?: boolean;
  /** Only a button of its foot closes it: what it shows is shown once. */
  firm?: boolean;
  /** What is changed in it has effect at once: closing loses nothing. */
  kept?: boolean;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  const pressed = useRef<EventTarget | null>(null); // a selection that ends outside is no click there
  const before = useRef(new Map<Field, string>()); // how its fields were when somebody first came to them
  const [asking, setAsking] = useState(false);
  const sent = useRef(false); // by its foot or by Enter, and nobody has come to a field since
  const changed = () => !kept && [...before.current].some(([field, state]) => field.isConnected && stateOf(field) !== state);
  const leave = () => {
    if (firm) return;
    if (changed()) setAsking(true);
    else onClose();
  };
  useEffect(() => {
    const opener = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
    };
  }, []);
  const note = (at: EventTarget | null) => {
    if (!isField(at)) return;
    sent.current = false;
    if (!before.current.has(at)) before.current.set(at, stateOf(at));
  };
  const closed = () => { // by the browser, which lets nobody refuse Esc twice in a row
    if (firm || changed()) dialog.current?.showModal();
    leave();
  };
  useEffect(() => {
    const first = sent.current ? faulty(dialog.current) : null;
    first?.scrollIntoView({ block: "center" });
    first?.focus({ preventScroll: true });
  });
  return (
    <dialog ref={dialog} class={side ? "side" : undefined} aria-labelledby={heading} onFocusIn={(e) => note(e.target)}
      onCancel={(e) => { if (e.target === dialog.current) { e.preventDefault(); leave(); } }} onClose={closed}
      onSubmit={() => { sent.current = true; }} onMouseDown={(e) => { pressed.current = e.target; }}
      onClick={(e) => { if (e.target === dialog.current && pressed.current === dialog.current) leave(); }}>
      <div class="dialog-head">
        <h2 id={heading}>{title}</h2>
        {!firm && <Button look="bare" icon="close" label="Close" onClick={leave} />}
      </div>
      <div class="dialog-body">{children}</div>
      {foot && <div class="dialog-foot" onClick={() => { sent.current = true; }}>{foot}</div>}
      {asking && <Leave onStay={() => setAsking(false)} onLeave={onClose}>What you changed is lost then.</Leave>}
    </dialog>
  );
}

/** Asks before what was typed is lost. */
export function Leave({ onStay, onLeave, children }: { onStay: () => void; onLeave: () => void; children: ComponentChildren }) {
  return (
    <Dialog title="Leave without saving?" onClose={onStay} foot={
      <>
        <Button onClick={onStay}>Stay</Button>
        <Button look="danger" onClick={onLeave}>Leave</Button>
      </>
    }>
      {children}
    </Dialog>
  );
}
