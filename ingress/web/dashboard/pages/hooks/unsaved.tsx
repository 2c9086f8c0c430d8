// Asks before unsaved changes are lost.
import { useState } from "preact/hooks";
import { useGuard } from "../../router";
import { Words } from "../../texts/hooks";
import { Leave } from "../../ui/dialog";

/**
 * Guards a page with unsaved changes. Returns the dialog that asks about them, which the page must
 * render.
 */
export function useUnsaved(dirty: boolean) {
  const [leave, setLeave] = useState<{ go: () => void } | null>(null);
  useGuard(dirty, (_, go) => {
    setLeave({ go });
    return false;
  });
  const close = () => setLeave(null);
  return leave && (
    <Leave onStay={close} onLeave={() => { close(); leave.go(); }}>{Words.yourChangesWillBeLost}</Leave>
  );
}
