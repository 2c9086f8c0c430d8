// Asks before what was typed is lost.
import { useEffect, useState } from "preact/hooks";
import { guardLeaving } from "../../router";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";

/** Guards the page while it holds what is not saved; gives the question, to be shown somewhere on it. */
export function useUnsaved(dirty: boolean) {
  const [leave, setLeave] = useState<{ go: () => void } | null>(null);
  useEffect(() => {
    if (!dirty) return;
    const stay = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener("beforeunload", stay);
    guardLeaving((_, go) => {
      setLeave({ go });
      return false;
    });
    return () => {
      removeEventListener("beforeunload", stay);
      guardLeaving(null);
    };
  }, [dirty]);
  const close = () => setLeave(null);
  return leave && (
    <Dialog title="Leave without saving?" onClose={close} foot={
      <>
        <Button onClick={close}>Stay</Button>
        <Button look="danger" onClick={() => { close(); leave.go(); }}>Leave</Button>
      </>
    }>
      What you changed is lost then.
    </Dialog>
  );
}
