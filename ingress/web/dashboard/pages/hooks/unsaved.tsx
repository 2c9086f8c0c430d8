// Asks before what was typed is lost.
import { useState } from "preact/hooks";
import { useGuard } from "../../router";
import { Leave } from "../../ui/dialog";

/** Guards the page while it holds what is not saved; gives the question, to be shown somewhere on it. */
export function useUnsaved(dirty: boolean) {
  const [leave, setLeave] = useState<{ go: () => void } | null>(null);
  useGuard(dirty, (_, go) => {
    setLeave({ go });
    return false;
  });
  const close = () => setLeave(null);
  return leave && (
    <Leave onStay={close} onLeave={() => { close(); leave.go(); }}>What you changed is lost then.</Leave>
  );
}
