// The button that begins a call, or says what is missing for one.
import { useState } from "preact/hooks";
import { put } from "../api";
import type { Agent } from "../types";
import { Button, LinkButton } from "../ui/button";
import { Curl } from "../ui/curl";
import { Dialog } from "../ui/dialog";
import { toast } from "../ui/toast";

/** Whether one may speak with an agent, and what changes it. */
export interface Voice {
  agent: Agent;
  mayEdit: boolean;
  /** Takes the agent as it was saved. */
  adopt: (agent: Agent) => void;
}

export function Speak({ voice, onSpeak, disabled }: { voice: Voice; onSpeak: () => void; disabled: boolean }) {
  const [asking, setAsking] = useState(false);
  const enabled = voice.agent.tools.voice?.enabled === true;
  return (
    <>
      <Button icon="voice" label={enabled ? "Speak" : "Speak: not enabled yet"} disabled={disabled} onClick={() => (enabled ? onSpeak() : setAsking(true))}><span class="button-words">Speak</span></Button>
      {asking && <Enable voice={voice} onSpeak={onSpeak} onClose={() => setAsking(false)} />}
    </>
  );
}

const body = { tools: { voice: { enabled: true } } };

function Enable({ voice, onSpeak, onClose }: { voice: Voice; onSpeak: () => void; onClose: () => void }) {
  const { agent, mayEdit, adopt } = voice;
  const enable = async () => {
    adopt(await put<Agent>("/api/agents", body, { id: agent.id }));
    toast(`People may speak with ${agent.name} now.`);
    onClose();
    onSpeak();
  };
  if (!mayEdit) return <Dialog title="Nobody may speak with this agent yet" onClose={onClose} foot={<Button onClick={onClose}>Close</Button>}>An admin of the organization can enable its voice, under Settings, Tools.</Dialog>;
  return (
    <Dialog title="Let people speak with this agent?" onClose={onClose} foot={
      <>
        <Curl what="Enable its voice" request={{ method: "PUT", path: "/api/agents", params: { id: agent.id }, body }} />
        <LinkButton href={`/dashboard/agents/${agent.id}/settings#tools`}>To its tools</LinkButton>
        <Button look="primary" onClick={enable}>Enable and speak</Button>
      </>
    }>
      Its voice is not enabled. Enabling it lets everybody who may chat with the agent speak with it too, here and over the API.
    </Dialog>
  );
}
