// Asks before what was typed is lost.
import { useEffect, useState } from "preact/hooks";
import { guardLeaving } from "../../router";
import { Leave } from "../../ui/dialog";

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
    <Leave onStay={close} onLeave={() => { close(); leave.go(); }}>What you changed is lost then.</Leave>
  );
}
