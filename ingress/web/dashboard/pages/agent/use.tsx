// The page with code examples that call an agent.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { put } from "../../api";
import { useBaseUrl, useSession } from "../../state";
import type { Agent } from "../../types";
import { Copy } from "../../ui/copy";
import { Curl } from "../../ui/curl";
import { Switch } from "../../ui/field";
import { Section } from "../../ui/parts";
import { Tabs } from "../../ui/tabs";
import { failed } from "../../ui/button";
import { toast } from "../../ui/toast";
import type { Editor } from "./editor";
import { automation, chat, connect, speak, stream } from "./examples";
import { Languages } from "./languages";

const ways = [
  { id: "chat", title: "Chat" }, { id: "stream", title: "Stream" }, { id: "clients", title: "SDKs and clients" },
  { id: "speak", title: "Speak" }, { id: "scheduler", title: "Scheduler" },
] as const;

export function Use({ editor }: { editor: Editor }) {
  const where = { baseUrl: useBaseUrl(), id: editor.agent.id };
  const [way, setWay] = useState<string>("chat");
  const examples: Record<(typeof ways)[number]["id"], () => ComponentChildren> = {
    chat: () => <Example what="Chat" of={chat(where)}>Sends a message and waits up to 55 seconds for the answer. If the run takes longer, the response is 202 with the run's URL.</Example>,
    stream: () => <Example what="Stream the answer" of={stream(where)}>Server-sent events: message.delta contains a piece of text, run.completed contains the whole run.</Example>,
    clients: () => <Example what="Use an existing client" of={connect(where)}>The SDKs retry and resume automatically. OpenAI clients see the agent as a model. MCP clients see all agents of the organization as tools.</Example>,
    speak: () => (
      <Example what="Speak with it" of={speak(where)}>
        A WebSocket with the events of OpenAI’s Realtime API, so its clients connect too. Some of them require https. {editor.agent.tools.voice?.enabled ? "Voice is on for this agent." : <>Voice is off for this agent. <a href={`/dashboard/agents/${editor.agent.id}/settings#tools`}>Switch it on under Tools</a>.</>} Web pages connect with a short-lived secret from <code>/v1/realtime/client_secrets</code>.
      </Example>
    ),
    scheduler: () => (
      <>
        <System editor={editor} />
        <Example what="Run it from a scheduler" of={automation(where)}>Cron jobs, pipelines and services run the agent without a person. A repeated request with the same idempotencyKey starts no second run: it gets the first run's result.</Example>
        <p class="hint">Runs with an <code>x-automation-id</code> are listed under <a href="/dashboard/automations">Automations</a>. Requests from browsers are refused.</p>
      </>
    ),
  };
  return (
    <div class="stack use">
      <Section title="Call it from your programs" intro={<>The examples read an API key from <code>PARLEY_API_KEY</code>. <a href="/dashboard/org">Create a key under Organization</a>; it is shown once. Use the key on servers only. For web pages, use the widget.</>}>
        <Tabs label="What your program does" tabs={ways} selected={way} onSelect={setWay}>{(tab) => examples[tab.id]()}</Tabs>
      </Section>
      <Section title="Ids that the examples use"><Names editor={editor} /></Section>
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
  if (!mayEdit) return allowed ? null : <p class="note warn">Schedulers and services may not call this agent. They get 403 <code>caller_not_allowed</code>. Ask an admin to allow them.</p>;
  const toggle = async () => {
    const next = await put<Agent>("/api/agents", body, { id: agent.id });
    adopt(next);
    toast(allowed ? `Schedulers and services may no longer call ${agent.name}.` : `Schedulers and services may now call ${agent.name}.`);
  };
  return (
    <div class={"note" + (allowed ? "" : " warn")}>
      <Switch label="Schedulers and services may call this agent" checked={allowed} onChange={() => void toggle().catch(failed)}
        hint={allowed ? "Saved immediately." : "Calls get 403 caller_not_allowed until you switch this on. Saved immediately."} />
      <Curl what="Change who may call it" request={{ method: "PUT", path: "/api/agents", params: { id: agent.id }, body }} />
    </div>
  );
}

function Names({ editor }: { editor: Editor }) {
  const session = useSession();
  return (
    <dl class="facts names">
      <dt>Agent</dt>
      <dd><code>{editor.agent.id}</code> <Copy text={editor.agent.id} label="Copy the agent's id" /><span class="hint below">Stays the same when the agent is renamed.</span></dd>
      <dt>Organization</dt>
      <dd><code>{session?.organization.id}</code><span class="hint below">Implied by an organization's key. With your own key, send it in the header <code>x-organization-id</code>.</span></dd>
      <dt>Session</dt>
      <dd><code>sessionId</code><span class="hint below">Your id for a chat, 1 to 128 characters. Messages of a session are answered in order, and each answer takes the earlier messages into account.</span></dd>
      <dt>Idempotency</dt>
      <dd><code>Idempotency-Key</code><span class="hint below">Your id for one message or run, sent as a header. A repeated request with the same key starts no second run.</span></dd>
    </dl>
  );
}
