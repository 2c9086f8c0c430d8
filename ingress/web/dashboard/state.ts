// What all parts of the page know: who is signed in, and where.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Boot, Role, Session } from "./types";

export const BootContext = createContext<Boot>({ session: null, baseUrl: "" });

/** The address that people and scripts reach the service at. */
export const useBaseUrl = (): string => useContext(BootContext).baseUrl;

/** The signed-in person's session, or null for a visitor of the demo. */
export const useSession = (): Session | null => useContext(BootContext).session;

const rank: Record<Role, number> = { member: 1, admin: 2, owner: 3 };

/** Whether the signed-in person may do what takes that role in the chosen organization. */
export function useMay(role: Role): boolean {
  const session = useSession();
  return session !== null && rank[session.caller.role] >= rank[role];
}
