// The button that starts a voice conversation, or explains why it is unavailable.
import { useState } from "preact/hooks";
import { put } from "../api";
import * as texts from "../texts/voice";
import { Words } from "../texts/voice";
import type { Agent } from "../types";
import { Button, LinkButton } from "../ui/button";
import { Curl } from "../ui/curl";
import { Dialog } from "../ui/dialog";
import { toast } from "../ui/toast";

/** An agent's voice setting, and how the dialog changes it. */
export interface Voice {
  agent: Agent;
  mayEdit: boolean;
  /** Called with the agent after its voice setting was saved. */
  adopt: (agent: Agent) => void;
}

export function Speak({ voice, onSpeak, disabled }: { voice: Voice; onSpeak: () => void; disabled: boolean }) {
  const [asking, setAsking] = useState(false);
  const enabled = voice.agent.tools.voice?.enabled === true;
  return (
    <>
      <Button icon="voice" label={enabled ? Words.speak : Words.speakVoiceIsOff} disabled={disabled} onClick={() => (enabled ? onSpeak() : setAsking(true))}><span class="button-words">{Words.speak}</span></Button>
      {asking && <Enable voice={voice} onSpeak={onSpeak} onClose={() => setAsking(false)} />}
    </>
  );
}

const body = { tools: { voice: { enabled: true } } };

function Enable({ voice, onSpeak, onClose }: { voice: Voice; onSpeak: () => void; onClose: () => void }) {
  const { agent, mayEdit, adopt } = voice;
  const enable = async () => {
    adopt(await put<Agent>("/api/agents", body, { id: agent.id }));
    toast(texts.peopleMayNowSpeak(agent.name));
    onClose();
    onSpeak();
  };
  if (!mayEdit) return <Dialog title={texts.voiceIsOffFor(agent.name)} onClose={onClose} foot={<Button onClick={onClose}>{Words.close}</Button>}>{Words.askAdminOfOrganization}</Dialog>;
  return (
    <Dialog title={texts.switchOnVoiceFor(agent.name)} onClose={onClose} foot={
      <>
        <Curl what={Words.switchOnVoice} request={{ method: "PUT", path: "/api/agents", params: { id: agent.id }, body }} />
        <LinkButton href={`/dashboard/agents/${agent.id}/settings#tools`}>{Words.openTools}</LinkButton>
        <Button look="primary" onClick={enable}>{Words.enableAndSpeak}</Button>
      </>
    }>
      {Words.voiceIsOff}
    </Dialog>
  );
}
