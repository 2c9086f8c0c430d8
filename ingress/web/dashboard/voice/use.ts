import { useEffect, useMemo, useState } from "preact/hooks";
import type { ChatSession } from "../chat/session";
import { Call } from "./call";

/**
 * Returns a session's call. Renders again when the call changes, and ends the call when the session
 * is left.
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
