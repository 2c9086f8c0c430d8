// The page of an agent: playground, settings, embedding, and code examples.
import { useRef } from "preact/hooks";
import { get } from "../api";
import { useQuery } from "../query";
import { usePlace } from "../router";
import type { Agent } from "../types";
import { Chat } from "../chat/chat";
import { LinkButton } from "../ui/button";
import { Copy } from "../ui/copy";
import { Curl } from "../ui/curl";
import { Leave } from "../ui/dialog";
import { Empty, Loaded, PageHeader } from "../ui/parts";
import { namesOf } from "./agent/draft";
import { useEditor, type Editor } from "./agent/editor";
import { Embed } from "./agent/embed";
import { useKeptFocus } from "./agent/focus";
import { SaveBar } from "./agent/savebar";
import { Settings } from "./agent/settings";
import { Use } from "./agent/use";

const tabs = [["", "Playground"], ["settings", "Settings"], ["embed", "Embed"], ["use", "Use it"]] as const;

export function AgentPage({ id = "", tab = "" }: Record<string, string>) {
  const query = useQuery<Agent>("agent " + id, (signal) => get("/api/agents", { id }, signal));
  if (query.error?.status === 404 && !query.data) return <Missing />;
  return (
    <>
      {!query.data && <PageHeader title="Agent" above={<a href="/dashboard/agents">Agents</a>} />}
      <Loaded query={query}>{(agent) => <Shown loaded={agent} tab={tab} />}</Loaded>
    </>
  );
}

function Missing() {
  return (
    <>
      <PageHeader title="Agent not found" above={<a href="/dashboard/agents">Agents</a>} />
      <Empty title="This agent doesn't exist here" action={<LinkButton href="/dashboard/agents" look="primary">Go to agents</LinkButton>}>
        It was deleted, or it belongs to another of your organizations.
      </Empty>
    </>
  );
}

function Shown({ loaded, tab }: { loaded: Agent; tab: string }) {
  const editor = useEditor(loaded);
  const { agent } = editor;

  useKeptFocus();
  const current = tabs.some(([path]) => path === tab) ? tab : "";
  const session = useOpenSession(current === "");
  return (
    <div class={"agent-page" + (current === "" ? " plays" : "")}>
      <PageHeader guide="tools" title={agent.name} above={<a href="/dashboard/agents">Agents</a>} actions={<span class="id"><code>{agent.id}</code><Copy text={agent.id} label="Copy the agent's id" /><Curl what="Read this agent" request={{ method: "GET", path: "/api/agents", params: { id: agent.id } }} /></span>}>
        {agent.description}
      </PageHeader>
      <nav class="tabs" aria-label="Agent">
        {tabs.map(([path, words]) => (
          <a key={path} href={`/dashboard/agents/${agent.id}${path === "" ? session : "/" + path}`} aria-current={path === current ? "page" : undefined}>{words}</a>
        ))}
      </nav>
      {current === "" && <Playground editor={editor} />}
      {current === "settings" && <Settings editor={editor} />}
      {current === "embed" && <Embed editor={editor} />}
      {current === "use" && <Use editor={editor} />}
      {(current === "settings" || current === "embed") && <SaveBar editor={editor} />}
      {editor.leaving && <Leave onStay={editor.leaving.stay} onLeave={editor.leaving.leave}>Your changes will be lost: {namesOf(editor.changed).join(", ")}.</Leave>}
    </div>
  );
}

/** Returns the query of the session that was open in the playground, so that its tab leads back to the session. */
function useOpenSession(playground: boolean): string {
  const here = usePlace().query.get("session");
  const open = useRef(here);
  if (playground) open.current = here;
  return open.current === null ? "" : "?session=" + encodeURIComponent(open.current);
}

function Playground({ editor }: { editor: Editor }) {
  const { agent, mayEdit, adopt } = editor;
  const pending = editor.changed.length > 0;
  if (!agent.allowedCallers.includes("user")) {
    return (
      <Empty title="People may not chat with this agent" action={<LinkButton href={`/dashboard/agents/${agent.id}/settings`}>Open settings</LinkButton>}>
        Only schedulers and services may call it. To try it here, allow People under “Who may call it” in its settings.
      </Empty>
    );
  }
  return (
    <>
      {pending && <p class="note warn">Unsaved changes don't apply here. The agent answers as last saved. <a href={`/dashboard/agents/${agent.id}/settings`}>Continue editing</a></p>}
      <Chat target={{ agentId: agent.id }} suggested={agent.suggestions} voice={{ agent, mayEdit, adopt }} />
    </>
  );
}
