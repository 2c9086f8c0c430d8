// The page's context: the signed-in person and the URL of the service.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Boot, Role, Session } from "./types";

export const BootContext = createContext<Boot>({ session: null, baseUrl: "", reset: "", currency: "" });

/** Returns the public URL of the service. */
export const useBaseUrl = (): string => useContext(BootContext).baseUrl;

/** Returns the command that prints a link to set a new password. The caller appends the account. */
export const useResetCommand = (): string => useContext(BootContext).reset;

/** The signed-in person's session, or null for a visitor of the demo. */
export const useSession = (): Session | null => useContext(BootContext).session;

const rank: Record<Role, number> = { member: 1, admin: 2, owner: 3 };

/** Reports whether the signed-in person has at least the given role in the chosen organization. */
export function useMay(role: Role): boolean {
  const session = useSession();
  return session !== null && rank[session.caller.role] >= rank[role];
}
