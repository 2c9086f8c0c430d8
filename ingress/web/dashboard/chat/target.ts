// The agent or template of a chat, and ids for new sessions and messages.
import type { Params } from "../api";

export type Target = { agentId: string } | { templateId: string };

export const targetId = (target: Target): string => ("agentId" in target ? target.agentId : target.templateId);

/** Returns the query parameters that identify a session in addition to the session's id. */
export const ofSession = (target: Target): Params => ("agentId" in target ? { agentId: target.agentId } : { templateId: target.templateId });

/** Returns the query parameters of a chat message. */
export const ofChat = (target: Target): Params => ({ action: "chat", ...("agentId" in target ? { id: target.agentId } : { template: target.templateId }) });

const letters = "0123456789abcdefghjkmnpqrstvwxyz";

/** Returns a unique id. It also works on pages without TLS, where crypto.randomUUID is missing. */
export function freshName(kind: string): string {
  const bytes = crypto.getRandomValues(new Uint8Array(20));
  return kind + "-" + Array.from(bytes, (b) => letters[b % 32]).join("");
}
