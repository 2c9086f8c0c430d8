// How programs call an agent.
import { put } from "../../api";
import { useBaseUrl, useSession } from "../../state";
import type { Agent } from "../../types";
import { Copy } from "../../ui/copy";
import { Curl } from "../../ui/curl";
import { Switch } from "../../ui/field";
import { Section } from "../../ui/parts";
import { failed } from "../../ui/button";
import { toast } from "../../ui/toast";
import type { Editor } from "./editor";
import { automation, chat, connect, speak, stream } from "./examples";
import { Languages } from "./languages";

export function Use({ editor }: { editor: Editor }) {
  const where = { baseUrl: useBaseUrl(), id: editor.agent.id };
  return (
    <div class="stack use">
      <Section title="Before you begin" intro={<>Calls need an API key in <code>PARLEY_API_KEY</code>. <a href="/dashboard/org">Make one under Organization</a>; it is shown once. Keep it on servers: a page that people open must not hold it, the widget is for those.</>}>
        <Names editor={editor} />
      </Section>
      <Section title="Chat" intro="Sends a message and waits for the answer, for up to 55 seconds; a run that takes longer is answered with 202 and where to read it.">
        <Languages what="Chat" of={chat(where)} />
      </Section>
      <Section title="Stream the answer" intro="Server-sent events as they happen: message.delta has the text, run.completed the whole run.">
        <Languages what="Stream the answer" of={stream(where)} />
      </Section>
      <Section title="With what you have" intro="The SDKs retry and resume by themselves. To OpenAI clients the agent is a model, to assistants that speak MCP all agents of the organization are tools.">
        <Languages what="With what you have" of={connect(where)} />
      </Section>
      <Section title="Speak with it" intro={<>A WebSocket with the events of OpenAI’s Realtime API, so its clients connect as well; where they insist on it, over https. The agent’s Voice must be enabled{editor.agent.tools.voice?.enabled ? ", as it is" : <>, which it is not: <a href={`/dashboard/agents/${editor.agent.id}/settings#tools`}>to its tools</a></>}. Pages connect with a secret that lives for minutes, from <code>/v1/realtime/client_secrets</code>.</>}>
        <Languages what="Speak with it" of={speak(where)} />
      </Section>
      <Section title="Run it from a scheduler" intro="Cron jobs, pipelines and services run the agent without a person. Repeated with the same idempotencyKey it never runs again: the caller gets the same result.">
        <div class="stack">
          <System editor={editor} />
          <Languages what="Run it from a scheduler" of={automation(where)} />
          <p class="hint">Runs that name an <code>x-automation-id</code> are listed under <a href="/dashboard/automations">Automations</a>. A request that comes from a browser is refused.</p>
        </div>
      </Section>
    </div>
  );
}

/** Whether schedulers may call the agent, changed at once. */
function System({ editor }: { editor: Editor }) {
  const { agent, mayEdit, adopt } = editor;
  const allowed = agent.allowedCallers.includes("system");
  const body = { allowedCallers: allowed ? ["user"] : [...agent.allowedCallers, "system"] };
  if (!mayEdit) return allowed ? null : <p class="note warn">Schedulers and services may not call this agent: they are answered with 403 <code>caller_not_allowed</code>. An admin can allow it.</p>;
  const toggle = async () => {
    const next = await put<Agent>("/api/agents", body, { id: agent.id });
    adopt(next);
    toast(allowed ? "Schedulers and services may not call it any more." : "Schedulers and services may call it now.");
  };
  return (
    <div class={"note" + (allowed ? "" : " warn")}>
      <Switch label="Schedulers and services may call this agent" checked={allowed} onChange={() => void toggle().catch(failed)}
        hint={allowed ? "Saved as soon as you switch it." : "They may not yet: calls are answered with 403 caller_not_allowed. Switch it on, and it is saved at once."} />
      <Curl what="Change who may call it" request={{ method: "PUT", path: "/api/agents", params: { id: agent.id }, body }} />
    </div>
  );
}

function Names({ editor }: { editor: Editor }) {
  const session = useSession();
  return (
    <dl class="facts names">
      <dt>Agent</dt>
      <dd><code>{editor.agent.id}</code> <Copy text={editor.agent.id} label="Copy the agent's id" /><span class="hint below">Never changes, whatever the agent is called.</span></dd>
      <dt>Organization</dt>
      <dd><code>{session?.organization.id}</code><span class="hint below">Keys of an organization know it. A key of your own needs it in the header <code>x-organization-id</code>.</span></dd>
      <dt>Session</dt>
      <dd><code>sessionId</code><span class="hint below">Your name for a chat, 1 to 128 characters. Messages of one session are answered one after the other, and each knows those before it.</span></dd>
      <dt>Once only</dt>
      <dd><code>Idempotency-Key</code><span class="hint below">Your name for one message or run, as a header. Sent again with the same key, it does not run again.</span></dd>
    </dl>
  );
}
