// Dialogs, built on the browser's dialog element. That element keeps the focus inside, and restores
// the earlier focus when the dialog is closed.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { useBack } from "../panels";
import { Words } from "../texts/parts";
import { Button } from "./button";
import { ApiButton, ApiScope } from "./curl";
import { showFault } from "./field";

type Field = HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement;

const isField = (at: EventTarget | null): at is Field =>
  (at instanceof HTMLInputElement && at.type !== "search") || at instanceof HTMLTextAreaElement || at instanceof HTMLSelectElement;

const fieldState = (field: Field): string => (field instanceof HTMLInputElement && /^(checkbox|radio)$/.test(field.type) ? String(field.checked) : field.value);

/**
 * Returns the first field of a dialog, or null. If the first field is a group of radio buttons,
 * returns the checked one.
 */
const firstField = (dialog: HTMLElement | null): HTMLElement | null =>
  dialog?.querySelector<HTMLElement>(".dialog-body :is(input:not([type=radio], [type=file]), input[type=radio]:checked, textarea, select):enabled") ?? null;

/**
 * A modal dialog, open while mounted. When it opens, the element with autofocus receives the focus,
 * or else the first field, or else the first button of the footer. In a side panel, the browser
 * chooses the element that receives the focus. After its form was sent, the first error or the
 * result is scrolled into view. Esc, the backdrop, the close button and the browser's Back button
 * call onClose, after a confirmation if input would be lost.
 */
export function Dialog({ title, onClose, children, foot, side, firm, kept, linked }: {
  title: string; onClose: () => void; children: ComponentChildren; foot?: ComponentChildren; side?: boolean;
  /**
   * Whether the dialog can be closed only with a button of its footer, because its content is shown
   * only once.
   */
  firm?: boolean;
  /** Whether changes apply immediately, so that nothing is lost when the dialog is closed. */
  kept?: boolean;
  /** Whether the page's URL opened the dialog. If so, Back leads to the previous page. Otherwise, Back closes the dialog. */
  linked?: boolean;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  const pressed = useRef<EventTarget | null>(null); // a text selection that ends outside the dialog does not count as a click on the backdrop
  const before = useRef(new Map<Field, string>()); // the state of each field when it was first focused
  const [asking, setAsking] = useState(false);
  const sent = useRef(false); // whether the form was submitted, and no field was focused since then
  const changed = () => !kept && [...before.current].some(([field, state]) => field.isConnected && fieldState(field) !== state);
  const leave = () => {
    if (firm) return;
    if (changed()) setAsking(true);
    else onClose();
  };
  useBack(leave, !linked);
  useEffect(() => {
    const opener = document.activeElement;
    dialog.current?.showModal();
    if (!side && !dialog.current?.querySelector("[autofocus]")) {
      (firstField(dialog.current) ?? dialog.current?.querySelector<HTMLElement>(".dialog-foot button:enabled"))?.focus();
    }

    return () => {
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
    };
  }, []);
  const note = (at: EventTarget | null) => {
    if (!isField(at)) return;
    sent.current = false;
    if (!before.current.has(at)) before.current.set(at, fieldState(at));
  };
  const closed = () => { // on a second Esc the browser closes the dialog, which a page cannot prevent
    if (firm || changed()) dialog.current?.showModal();
    leave();
  };
  useEffect(() => {
    if (!sent.current || showFault(dialog.current)) return;
    const result = dialog.current?.querySelector(".dialog-body :is([role=alert], [role=status]):not(:empty)");
    if (result) sent.current = false;
    result?.scrollIntoView({ block: "nearest" });
  });
  return (
    <dialog ref={dialog} class={side ? "side" : undefined} aria-labelledby={heading} onFocusIn={(e) => note(e.target)}
      onCancel={(e) => { if (e.target === dialog.current) { e.preventDefault(); leave(); } }} onClose={closed}
      onSubmit={() => { sent.current = true; }} onMouseDown={(e) => { pressed.current = e.target; }}
      onClick={(e) => { if (e.target === dialog.current && pressed.current === dialog.current) leave(); }}>
      <ApiScope>
        <div class="dialog-head">
          <h2 id={heading}>{title}</h2>
          <span class="row"><ApiButton />{!firm && <Button look="bare" icon="close" label={Words.close} onClick={leave} />}</span>
        </div>
        <div class="dialog-body">{children}</div>
        {foot && <div class="dialog-foot" onClick={() => { sent.current = true; }}>{foot}</div>}
      </ApiScope>
      {asking && <Leave onStay={() => setAsking(false)} onLeave={onClose}>{Words.yourChangesWillBeLost}</Leave>}
    </dialog>
  );
}

/** Asks before unsaved changes are lost. */
export function Leave({ onStay, onLeave, children }: { onStay: () => void; onLeave: () => void; children: ComponentChildren }) {
  return (
    <Dialog title={Words.leaveWithoutSaving} onClose={onStay} foot={
      <>
        <Button onClick={onStay}>{Words.stay}</Button>
        <Button look="danger" onClick={onLeave}>{Words.leave}</Button>
      </>
    }>
      {children}
    </Dialog>
  );
}
