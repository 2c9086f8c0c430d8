// The page of an agent: playground, settings, embedding, and code examples.
import { useRef } from "preact/hooks";
import { get } from "../api";
import { firstQuestions } from "../firstquestions";
import { later } from "../later";
import { useQuery } from "../query";
import { useRoute } from "../router";
import { searchesDocuments } from "../samples";
import * as texts from "../texts/agent";
import { Words } from "../texts/agent";
import type { Agent } from "../types";
import { Chat } from "../chat/chat";
import { LinkButton } from "../ui/button";
import { Copy } from "../ui/copy";
import { Curl } from "../ui/curl";
import { Leave } from "../ui/dialog";
import { Empty, Loaded, PageHeader } from "../ui/parts";
import { fieldLabels } from "./agent/draft";
import { useEditor, type Editor } from "./agent/editor";
import { useKeptFocus } from "./agent/focus";

const code = later(() => import("./agent/codetabs"), { within: true });
const EmbedTab = code((tabs) => tabs.EmbedTab);
const UseTab = code((tabs) => tabs.UseTab);
const SettingsTab = later(() => import("./agent/settingstab"), { within: true })((tab) => tab.SettingsTab);

const tabs = [
  { path: "", words: Words.playground, guide: "tools" },
  { path: "settings", words: Words.settings, guide: "tools" },
  { path: "embed", words: Words.embed, guide: "widget" },
  { path: "use", words: Words.useIt, guide: "clients" },
];

export function AgentPage({ id = "", tab = "" }: Record<string, string>) {
  const query = useQuery<Agent>("agent " + id, (signal) => get("/api/agents", { id }, signal));
  if (query.error?.status === 404 && !query.data) return <Missing />;
  return (
    <>
      {!query.data && <PageHeader title={Words.agent} above={<a href="/dashboard/agents">{Words.agents}</a>} />}
      <Loaded query={query}>{(agent) => <Shown loaded={agent} tab={tab} />}</Loaded>
    </>
  );
}

function Missing() {
  return (
    <>
      <PageHeader title={Words.agentNotFound} above={<a href="/dashboard/agents">{Words.agents}</a>} />
      <Empty title={Words.thisAgentDoesntExist} action={<LinkButton href="/dashboard/agents" look="primary">{Words.goToAgents}</LinkButton>}>
        {Words.itWasDeleted}
      </Empty>
    </>
  );
}

function Shown({ loaded, tab }: { loaded: Agent; tab: string }) {
  const editor = useEditor(loaded);
  const { agent } = editor;

  useKeptFocus();
  const { path: current, guide } = tabs.find(({ path }) => path === tab) ?? tabs[0]!;
  const session = useOpenSession(current === "");
  return (
    <div class={"agent-page" + (current === "" ? " plays" : "")}>
      <PageHeader compact guide={guide} title={agent.name} above={<a href="/dashboard/agents">{Words.agents}</a>} actions={<span class="id"><code>{agent.id}</code><Copy text={agent.id} label={Words.copyAgentsId} /><Curl what={Words.readThisAgent} request={{ method: "GET", path: "/api/agents", params: { id: agent.id } }} /></span>}>
        {agent.description}
      </PageHeader>
      <nav class="tabs" aria-label={Words.agent}>
        {tabs.map(({ path, words }) => (
          <a key={path} href={`/dashboard/agents/${agent.id}${path === "" ? session : "/" + path}`} aria-current={path === current ? "page" : undefined}>{words}</a>
        ))}
      </nav>
      {current === "" && <Playground editor={editor} />}
      {current === "settings" && <SettingsTab editor={editor} />}
      {current === "embed" && <EmbedTab editor={editor} />}
      {current === "use" && <UseTab editor={editor} />}
      {editor.leaving && <Leave onStay={editor.leaving.stay} onLeave={editor.leaving.leave}>{texts.yourChangesWillBeLost(fieldLabels(editor.changed).join(", "))}</Leave>}
    </div>
  );
}

/**
 * Returns the URL query of the session that was last open in the playground. The playground's tab
 * then opens this session again.
 */
function useOpenSession(playground: boolean): string {
  const here = useRoute().query.get("session");
  const open = useRef(here);
  if (playground) open.current = here;
  return open.current === null ? "" : "?session=" + encodeURIComponent(open.current);
}

function Playground({ editor }: { editor: Editor }) {
  const { agent, mayEdit, adopt } = editor;
  const pending = editor.changed.length > 0;
  if (!agent.allowedCallers.includes("user")) {
    return (
      <Empty title={Words.agentIsntOpenToPeople} action={<LinkButton href={`/dashboard/agents/${agent.id}/settings`}>{Words.openSettings}</LinkButton>}>
        {Words.onlySchedulersAndServices}
      </Empty>
    );
  }
  return (
    <>
      {pending && <p class="note warn">{texts.unsavedChangesDontApply(`/dashboard/agents/${agent.id}/settings`)}</p>}
      <Chat target={{ agentId: agent.id }} suggested={agent.suggestions.length > 0 ? agent.suggestions : firstQuestions(agent)} voice={{ agent, mayEdit, adopt }} searches={searchesDocuments(agent.tools)} />
    </>
  );
}
