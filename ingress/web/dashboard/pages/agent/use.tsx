// The page with code examples that call an agent.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { put } from "../../api";
import { useBaseUrl, useSession } from "../../state";
import * as texts from "../../texts/use";
import { Words } from "../../texts/use";
import type { Agent } from "../../types";
import { Copy } from "../../ui/copy";
import { Curl } from "../../ui/curl";
import { Switch } from "../../ui/field";
import { Section } from "../../ui/parts";
import { Tabs } from "../../ui/tabs";
import { showError } from "../../ui/button";
import { toast } from "../../ui/toast";
import type { Editor } from "./editor";
import { automation, chat, connect, speak, stream } from "./examples";
import { Languages } from "./languages";

const ways = [
  { id: "chat", title: Words.chat }, { id: "stream", title: Words.stream }, { id: "clients", title: Words.sdksAndClients },
  { id: "speak", title: Words.speak }, { id: "scheduler", title: Words.scheduler },
] as const;

export function Use({ editor }: { editor: Editor }) {
  const where = { baseUrl: useBaseUrl(), id: editor.agent.id };
  const [way, setWay] = useState<string>("chat");
  const examples: Record<(typeof ways)[number]["id"], () => ComponentChildren> = {
    chat: () => <Example what={Words.chat} of={chat(where)}>{Words.sendsMessageAndWaits}</Example>,
    stream: () => <Example what={Words.streamTheAnswer} of={stream(where)}>{Words.serverSentEventsMessage}</Example>,
    clients: () => <Example what={Words.useExistingClient} of={connect(where)}>{Words.sdksRetryAndResume}</Example>,
    speak: () => (
      <Example what={Words.speakWithIt} of={speak(where)}>
        {texts.websocketWithEvents(editor.agent.tools.voice?.enabled ? Words.voiceIsOnForThisAgent : texts.voiceIsOff(`/dashboard/agents/${editor.agent.id}/settings#tools`))}
      </Example>
    ),
    scheduler: () => (
      <>
        <System editor={editor} />
        <Example what={Words.runItFromScheduler} of={automation(where)}>{Words.cronJobsPipelines}</Example>
        <p class="hint">{texts.runsWithXAutomation()}</p>
      </>
    ),
  };
  return (
    <div class="stack use">
      <Section title={Words.callItFromYourPrograms} intro={texts.examplesReadApiKey()}>
        <Tabs label={Words.whatYourProgramDoes} tabs={ways} selected={way} onSelect={setWay}>{(tab) => examples[tab.id]()}</Tabs>
      </Section>
      <Section title={Words.idsThatExamplesUse}><Names editor={editor} /></Section>
    </div>
  );
}

function Example({ what, of, children }: { what: string; of: Record<string, string>; children: ComponentChildren }) {
  return (
    <>
      <p class="quiet">{children}</p>
      <Languages key={what} what={what} of={of} />
    </>
  );
}

/** A switch that allows schedulers to call the agent. It saves immediately. */
function System({ editor }: { editor: Editor }) {
  const { agent, mayEdit, adopt } = editor;
  const allowed = agent.allowedCallers.includes("system");
  const body = { allowedCallers: allowed ? ["user"] : [...agent.allowedCallers, "system"] };
  if (!mayEdit) return allowed ? null : <p class="note warn">{texts.schedulersAndServices()}</p>;
  const toggle = async () => {
    const next = await put<Agent>("/api/agents", body, { id: agent.id });
    adopt(next);
    toast(allowed ? texts.schedulersAndServicesMayNoLonger(agent.name) : texts.schedulersAndServicesMayNow(agent.name));
  };
  return (
    <div class={"note" + (allowed ? "" : " warn")}>
      <Switch label={Words.schedulersAndServicesMayCall} checked={allowed} onChange={() => void toggle().catch(showError)}
        hint={allowed ? Words.savedImmediately : Words.callsGet403Caller} />
      <Curl what={Words.changeWhoMayCall} request={{ method: "PUT", path: "/api/agents", params: { id: agent.id }, body }} />
    </div>
  );
}

function Names({ editor }: { editor: Editor }) {
  const session = useSession();
  return (
    <dl class="facts names">
      <dt>{Words.agent}</dt>
      <dd><code>{editor.agent.id}</code> <Copy text={editor.agent.id} label={Words.copyAgentsId} /><span class="hint below">{Words.staysSameWhenAgent}</span></dd>
      <dt>{Words.organization}</dt>
      <dd><code>{session?.organization.id}</code><span class="hint below">{texts.impliedByOrganizationsKey()}</span></dd>
      <dt>{Words.session}</dt>
      <dd><code>sessionId</code><span class="hint below">{Words.yourIdForChat}</span></dd>
      <dt>{Words.idempotency}</dt>
      <dd><code>Idempotency-Key</code><span class="hint below">{Words.yourIdForOneMessage}</span></dd>
    </dl>
  );
}
