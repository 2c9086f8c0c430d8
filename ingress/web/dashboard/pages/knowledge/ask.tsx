// Leads from a document to the chat with an agent that reads it. The message field then contains a
// question about the document.
import { askNext } from "../../chat/kept";
import { go } from "../../router";
import { useMay, useSession } from "../../state";
import * as texts from "../../texts/knowledge";
import { Words } from "../../texts/knowledge";
import type { Agent, Document } from "../../types";
import { Button, LinkButton } from "../../ui/button";
import { useAgents } from "../runs/names";

const maxOthers = 10; // number of agents that the person can choose instead of the newest one

/** Reports whether people can chat with an agent whose search includes a document. */
export function readsDocument({ tools: { knowledge }, allowedCallers }: Agent, d: Document): boolean {
  if (!knowledge?.enabled || !allowedCallers.includes("user")) return false;
  const included = !knowledge.documentIds || knowledge.documentIds.includes(d.id);
  return included && Object.entries(knowledge.metadata ?? {}).every(([name, value]) => d.metadata[name] === value);
}

/**
 * Returns the agents that read a document, the newest one first, and a function that opens the chat
 * with an agent. The list is undefined while it loads.
 */
function useReaders(d: Document): { readers: Agent[] | undefined; ask: (agent: Agent) => void } {
  const { agents, loaded } = useAgents();
  const person = useSession()?.caller.userId ?? "";
  return {
    readers: loaded ? agents.filter((agent) => readsDocument(agent, d)) : undefined,
    ask: (agent) => {
      askNext(person, agent.id, texts.mainPointsOf(d.name));
      go("/dashboard/agents/" + encodeURIComponent(agent.id));
    },
  };
}

/** A button that opens the newest agent that reads a document, or a link to create such an agent. */
function AskNewest({ of: d, readers, ask, brief }: { of: Document; readers: Agent[] | undefined; ask: (agent: Agent) => void; brief?: boolean }) {
  const may = useMay("admin");
  const [newest] = readers ?? [];
  if (readers !== undefined && !newest) return may ? <LinkButton href="/dashboard/agents?new=tpl_documents">{Words.createAgentThatReads}</LinkButton> : null;
  return <Button look={brief ? undefined : "primary"} disabled={!newest} label={texts.askAbout(d.name)} onClick={() => newest && ask(newest)}>{brief ? Words.askAnAgent : Words.askAnAgentAboutIt}</Button>;
}

/** Offers to ask about a document that was just added, in its row. */
export function AskInRow({ of: d }: { of: Document }) {
  const { readers, ask } = useReaders(d);
  return <AskNewest of={d} readers={readers} ask={ask} brief />;
}

/** Offers to ask about a document, with a choice of the agent if several read the document. */
export function AskInDialog({ of: d }: { of: Document }) {
  const { readers, ask } = useReaders(d);
  const others = readers?.slice(1, 1 + maxOthers) ?? [];
  return (
    <div class="stack tight">
      <div class="actions">
        <AskNewest of={d} readers={readers} ask={ask} />
        {readers?.[0] && <span class="hint">{texts.opensAgent(readers[0].name)}</span>}
      </div>
      {others.length > 0 && (
        <details class="fold">
          <summary>{Words.askAnotherAgent}</summary>
          <div class="row">{others.map((agent) => <Button key={agent.id} onClick={() => ask(agent)}>{agent.name}</Button>)}</div>
        </details>
      )}
    </div>
  );
}
