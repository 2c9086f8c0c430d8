// Whom one talks with, as requests name it, and names for what begins here.
import type { Params } from "../api";

export type Target = { agentId: string } | { templateId: string };

export const targetId = (target: Target): string => ("agentId" in target ? target.agentId : target.templateId);

/** What a session is found by, beside its id. */
export const ofSession = (target: Target): Params => ("agentId" in target ? { agentId: target.agentId } : { templateId: target.templateId });

/** The query of a message to it. */
export const ofChat = (target: Target): Params => ({ action: "chat", ...("agentId" in target ? { id: target.agentId } : { template: target.templateId }) });

const letters = "0123456789abcdefghjkmnpqrstvwxyz";

/** A new name that nobody else has, also where the page did not come over TLS. */
export function freshName(kind: string): string {
  const bytes = crypto.getRandomValues(new Uint8Array(20));
  return kind + "-" + Array.from(bytes, (b) => letters[b % 32]).join("");
}
