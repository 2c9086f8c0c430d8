// The button that starts a voice conversation, or explains why it is unavailable.
import { useState } from "preact/hooks";
import { put } from "../api";
import type { Agent } from "../types";
import { Button, LinkButton } from "../ui/button";
import { Curl } from "../ui/curl";
import { Dialog } from "../ui/dialog";
import { toast } from "../ui/toast";

/** An agent's voice setting, and how the dialog changes it. */
export interface Voice {
  agent: Agent;
  mayEdit: boolean;
  /** Receives the saved agent. */
  adopt: (agent: Agent) => void;
}

export function Speak({ voice, onSpeak, disabled }: { voice: Voice; onSpeak: () => void; disabled: boolean }) {
  const [asking, setAsking] = useState(false);
  const enabled = voice.agent.tools.voice?.enabled === true;
  return (
    <>
      <Button icon="voice" label={enabled ? "Speak" : "Speak: voice is off"} disabled={disabled} onClick={() => (enabled ? onSpeak() : setAsking(true))}><span class="button-words">Speak</span></Button>
      {asking && <Enable voice={voice} onSpeak={onSpeak} onClose={() => setAsking(false)} />}
    </>
  );
}

const body = { tools: { voice: { enabled: true } } };

function Enable({ voice, onSpeak, onClose }: { voice: Voice; onSpeak: () => void; onClose: () => void }) {
  const { agent, mayEdit, adopt } = voice;
  const enable = async () => {
    adopt(await put<Agent>("/api/agents", body, { id: agent.id }));
    toast(`People may now speak with ${agent.name}.`);
    onClose();
    onSpeak();
  };
  if (!mayEdit) return <Dialog title={`Voice is off for ${agent.name}`} onClose={onClose} foot={<Button onClick={onClose}>Close</Button>}>Ask an admin of the organization to switch it on in the agent’s settings, under Tools.</Dialog>;
  return (
    <Dialog title={`Switch on voice for ${agent.name}?`} onClose={onClose} foot={
      <>
        <Curl what="Switch on voice" request={{ method: "PUT", path: "/api/agents", params: { id: agent.id }, body }} />
        <LinkButton href={`/dashboard/agents/${agent.id}/settings#tools`}>Open tools</LinkButton>
        <Button look="primary" onClick={enable}>Enable and speak</Button>
      </>
    }>
      Voice is off. With voice on, everyone who may chat with the agent may also speak with it, here and over the API.
    </Dialog>
  );
}
