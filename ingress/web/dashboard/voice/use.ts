import { useEffect, useMemo, useState } from "preact/hooks";
import type { ChatSession } from "../chat/session";
import { Call } from "./call";

/**
 * Returns the call of a session. The component renders again when the call changes. The call ends
 * when the session is left.
 */
export function useCall(session: ChatSession): Call {
  const call = useMemo(() => new Call(session), [session]);
  const [, draw] = useState(0);
  useEffect(() => {
    const again = () => draw((n) => n + 1);
    call.addEventListener("change", again);
    return () => {
      call.removeEventListener("change", again);
      void call.end();
    };
  }, [call]);
  return call;
}
