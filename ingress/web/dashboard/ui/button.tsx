import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Words } from "../texts/parts";
import { Icon, type IconName } from "./icon";
import { toast } from "./toast";
import { ApiError } from "../api";

/**
 * The appearance of a button. A button with the look "remove" deletes or revokes something, and is
 * next to other buttons.
 */
type Look = "primary" | "danger" | "bare" | "remove" | "plain";

interface Common {
  look?: Look;
  icon?: IconName;
  label?: string; // name for screen readers, if the visible text is not sufficient
  children?: ComponentChildren;
}

interface ButtonProps extends Common {
  type?: "button" | "submit";
  disabled?: boolean;
  pressed?: boolean;
  /** The keyboard shortcut, if there is one. */
  keys?: string;
  expanded?: boolean;
  wide?: boolean;
  /**
   * The action. Clicks are ignored while its promise is pending, and its error is shown as a
   * message.
   */
  onClick?: (event: MouseEvent) => unknown;
}

const looks: Record<Look, string[]> = { primary: ["primary"], danger: ["danger"], bare: ["bare"], remove: ["bare", "danger"], plain: [] };
const classes = (look: Look = "plain", wide?: boolean) => ["button", ...looks[look], ...(wide ? ["wide"] : [])].join(" ");

export function Button({ look, icon, label, children, type = "button", disabled, pressed, keys, expanded, wide, onClick }: ButtonProps) {
  const [busy, setBusy] = useState(false);
  const here = useRef(true);
  useEffect(() => {
    here.current = true;
    return () => {
      here.current = false;
    };
  }, []);
  const click = (event: MouseEvent) => {
    if (busy || disabled) {
      event.preventDefault();
      return;
    }
    const result = onClick?.(event);
    if (!(result instanceof Promise)) return;
    setBusy(true);
    result.catch(showError).finally(() => {
      if (here.current) setBusy(false);
    });
  };
  return (
    <button type={type} class={classes(look, wide)} disabled={disabled} aria-disabled={busy ? "true" : undefined} aria-busy={busy ? "true" : undefined}
      aria-label={label} aria-pressed={pressed} aria-keyshortcuts={keys} aria-expanded={expanded} onClick={click}>
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

/** Shows the error of a failed action as a message. */
export function showError(error: unknown): void {
  if (error instanceof ApiError) {
    const fields = error.errors.map((e) => `${e.field} ${e.message}`).join("; ");
    toast(fields === "" ? error.detail : fields, "bad");
    return;
  }
  console.error(error);
  toast(Words.thisPageFailedReload, "bad");
}

export function LinkButton({ href, look, icon, label, children, download }: Common & { href: string; download?: boolean }) {
  return (
    <a class={classes(look)} href={href} aria-label={label} download={download}>
      {icon && <Icon name={icon} />}
      {children}
    </a>
  );
}
