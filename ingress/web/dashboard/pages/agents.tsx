// The list of the organization's agents.
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { del } from "../api";
import { useList } from "../query";
import { setQuery, useRoute } from "../router";
import { useMay } from "../state";
import * as texts from "../texts/agents";
import { Words } from "../texts/agents";
import type { Agent } from "../types";
import { Button, LinkButton } from "../ui/button";
import { Curl } from "../ui/curl";
import { Confirm } from "../ui/confirm";
import { Empty, Loaded, More, PageHeader, Time } from "../ui/parts";
import { Table, type Column } from "../ui/table";
import { toast } from "../ui/toast";
import { toolWords } from "../toolnames";
import { toolNames } from "./agent/draft";
import { NewAgent } from "./agents/create";
import { DeleteWords } from "./agents/delete";

export function AgentsPage() {
  const { query } = useRoute();
  const q = query.get("q") ?? "";
  const creating = query.get("new");
  const mayEdit = useMay("admin");
  const list = useList<Agent>("/api/agents", { q });

  const before = useRef<Agent[] | undefined>(undefined);
  if (list.data) before.current = list.data;

  const start = () => setQuery({ new: "1" });
  const none = q === "" && list.data?.length === 0;
  const some = before.current !== undefined && !none;
  return (
    <>
      <PageHeader guide="tools" title={Words.agents} actions={mayEdit && some && <><Curl what={Words.listAgents} request={{ method: "GET", path: "/api/agents", params: { q } }} /><Button look="primary" icon="plus" onClick={start}>{Words.newAgent}</Button></>}>
        {Words.eachAgentHasInstructions}
      </PageHeader>
      <div class="stack">
        {some && <Search q={q} />}
        {/* The previous result stays until the next result has loaded, so that nothing jumps during typing. */}
        <Loaded query={{ ...list, data: list.data ?? before.current }}>
          {(agents) => agents.length > 0
            ? <Agents agents={agents} mayEdit={mayEdit} gone={list.reload} />
            : q === "" ? <None mayEdit={mayEdit} start={start} /> : <p class="quiet" role="status">{texts.noAgentNameContains(q)}{" "}<Button look="bare" onClick={() => setQuery({ q: null })}>{Words.showAll}</Button></p>}
        </Loaded>
        <More list={list} />
      </div>
      {creating !== null && mayEdit && <NewAgent template={creating} onClose={() => setQuery({ new: null })} />}
    </>
  );
}

function Search({ q }: { q: string }) {
  const id = useId();
  const [text, setText] = useState(q);
  useEffect(() => {
    if (text.trim() === q) return;
    const timer = setTimeout(() => setQuery({ q: text.trim() }), 250);
    return () => clearTimeout(timer);
  }, [text]);
  useEffect(() => setText(q), [q]);
  return (
    <div class="search" role="search">
      <label class="visually-hidden" for={id}>{Words.searchAgentsByName}</label>
      <input id={id} class="input" type="search" placeholder={Words.searchByName} maxLength={120} value={text} onInput={(e) => setText(e.currentTarget.value)} />
    </div>
  );
}

function None({ mayEdit, start }: { mayEdit: boolean; start: () => void }) {
  return (
    <Empty title={Words.noAgentsYet} action={mayEdit && (
      <div class="row">
        <Button look="primary" icon="plus" onClick={start}>{Words.newAgent}</Button>
        <Curl what={Words.createAnAgent} request={{ method: "POST", path: "/api/agents", body: { name: Words.releaseNotes, systemPrompt: Words.youWriteShortRelease, tools: { webSearch: { enabled: true } } } }} />
      </div>
    )}>
      {texts.agentAnswersPeople(mayEdit ? Words.startWithName : Words.adminsOfOrganizationCreate)}
    </Empty>
  );
}

function Agents({ agents, mayEdit, gone }: { agents: Agent[]; mayEdit: boolean; gone: () => void }) {
  const columns: Column<Agent>[] = [
    { head: Words.agent, cell: (a) => <div class="agent-row"><span class="agent-name"><a href={`/dashboard/agents/${a.id}`}>{a.name}</a>{!a.allowedCallers.includes("user") && <span class="tag">{Words.schedulersOnly}</span>}</span>{a.description && <span class="agent-what">{a.description}</span>}</div> },
    { head: Words.model, tight: true, cell: (a) => <code class="agent-model">{a.model}</code> },
    { head: Words.tools, cell: (a) => <ToolTags agent={a} /> },
    { head: Words.changed, cell: (a) => <Time at={a.updatedAt} />, tight: true },
  ];
  if (mayEdit) columns.push({ head: Words.actions, silent: true, tight: true, cell: (a) => <Actions agent={a} gone={gone} /> });
  return <Table caption={Words.agents} columns={columns} rows={agents} id={(a) => a.id} />;
}

const maxTools = 3; // maximum number of tools shown for an agent; more would need a second line

function ToolTags({ agent }: { agent: Agent }) {
  const on = toolNames.filter((t) => agent.tools[t]?.enabled);
  if (on.length === 0) return <span class="quiet">{Words.none}</span>;
  const more = on.slice(maxTools);
  return (
    <span class="tags">
      {on.slice(0, maxTools).map((t) => <span key={t} class="tag">{toolWords[t]}</span>)}
      {more.length > 0 && <span class="tag" title={more.map((t) => toolWords[t]).join(", ")}>+{more.length}<span class="visually-hidden">: {more.map((t) => toolWords[t]).join(", ")}</span></span>}
    </span>
  );
}

function Actions({ agent, gone }: { agent: Agent; gone: () => void }) {
  const drop = async () => {
    await del("/api/agents", { id: agent.id });
    toast(texts.nameWasDeleted(agent.name));
    gone();
  };
  return (
    <div class="actions">
      <LinkButton look="bare" href={`/dashboard/agents/${agent.id}/settings`} label={texts.settingsOfName(agent.name)}>{Words.settings}</LinkButton>
      <Confirm look="remove" action={Words.deleteIt} label={texts.deleteName(agent.name)} question={texts.deleteNameQuestion(agent.name)} onConfirm={drop} detail={<DeleteWords agent={agent} />} />
    </div>
  );
}
