// A button for an action that cannot be undone.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Words } from "../texts/parts";
import { Button } from "./button";
import type { Request } from "./copy";
import { Curl } from "./curl";
import { Dialog } from "./dialog";

/** A button that asks for confirmation before it acts. */
export function Confirm({ action, question, detail, onConfirm, look = "danger", icon, label, disabled, request }: {
  action: string; question: string; detail?: ComponentChildren; onConfirm: () => Promise<unknown>; look?: "danger" | "bare" | "remove"; icon?: "trash"; label?: string; disabled?: boolean;
  /** The request that the action sends, shown as a curl command. */
  request?: Request;
}) {
  const [asking, setAsking] = useState(false);
  return (
    <>
      <Button look={look} icon={icon} label={label} disabled={disabled} onClick={() => setAsking(true)}>{action}</Button>
      {asking && (
        <Dialog title={question} onClose={() => setAsking(false)} foot={
          <>
            {request && <Curl what={label ?? action} request={request} />}
            <Button onClick={() => setAsking(false)}>{Words.goBack}</Button>
            <Button look="danger" onClick={() => onConfirm().then(() => setAsking(false))}>{action}</Button>
          </>
        }>
          {detail ?? Words.thisCannotBeUndone}
        </Dialog>
      )}
    </>
  );
}
