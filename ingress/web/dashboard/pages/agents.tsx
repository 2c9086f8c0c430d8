// The list of the organization's agents.
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { del } from "../api";
import { useList } from "../query";
import { setQuery, usePlace } from "../router";
import { useMay } from "../state";
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
  const { query } = usePlace();
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
      <PageHeader guide="tools" title="Agents" actions={mayEdit && some && <><Curl what="List agents" request={{ method: "GET", path: "/api/agents", params: { q } }} /><Button look="primary" icon="plus" onClick={start}>New agent</Button></>}>
        Each agent has instructions, a model, and the tools that it may use.
      </PageHeader>
      <div class="stack">
        {some && <Search q={q} />}
        {/* The previous result stays until the next result has loaded, so that nothing jumps during typing. */}
        <Loaded query={{ ...list, data: list.data ?? before.current }}>
          {(agents) => agents.length > 0
            ? <Agents agents={agents} mayEdit={mayEdit} gone={list.reload} />
            : q === "" ? <None mayEdit={mayEdit} start={start} /> : <p class="quiet" role="status">No agent name contains “{q}”. <Button look="bare" onClick={() => setQuery({ q: null })}>Show all</Button></p>}
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
      <label class="visually-hidden" for={id}>Search agents by name</label>
      <input id={id} class="input" type="search" placeholder="Search by name" maxLength={120} value={text} onInput={(e) => setText(e.currentTarget.value)} />
    </div>
  );
}

function None({ mayEdit, start }: { mayEdit: boolean; start: () => void }) {
  return (
    <Empty title="No agents yet" action={mayEdit && (
      <div class="row">
        <Button look="primary" icon="plus" onClick={start}>New agent</Button>
        <Curl what="Create an agent" request={{ method: "POST", path: "/api/agents", body: { name: "Release notes", systemPrompt: "You write short release notes.", tools: { webSearch: { enabled: true } } } }} />
      </div>
    )}>
      An agent answers people in a chat or on your own pages, or runs on a schedule. {mayEdit ? "Start with a name and instructions, or with a template." : "Admins of the organization create agents."}
    </Empty>
  );
}

function Agents({ agents, mayEdit, gone }: { agents: Agent[]; mayEdit: boolean; gone: () => void }) {
  const columns: Column<Agent>[] = [
    { head: "Agent", cell: (a) => <div class="agent-row"><span class="agent-name"><a href={`/dashboard/agents/${a.id}`}>{a.name}</a>{!a.allowedCallers.includes("user") && <span class="tag">schedulers only</span>}</span>{a.description && <span class="agent-what">{a.description}</span>}</div> },
    { head: "Model", tight: true, cell: (a) => <code class="agent-model">{a.model}</code> },
    { head: "Tools", cell: (a) => <ToolTags agent={a} /> },
    { head: "Changed", cell: (a) => <Time at={a.updatedAt} />, tight: true },
  ];
  if (mayEdit) columns.push({ head: "Actions", silent: true, tight: true, cell: (a) => <Actions agent={a} gone={gone} /> });
  return <Table caption="Agents" columns={columns} rows={agents} id={(a) => a.id} />;
}

const shownTools = 3; // more would make a row two lines high

function ToolTags({ agent }: { agent: Agent }) {
  const on = toolNames.filter((t) => agent.tools[t]?.enabled);
  if (on.length === 0) return <span class="quiet">none</span>;
  const more = on.slice(shownTools);
  return (
    <span class="tags">
      {on.slice(0, shownTools).map((t) => <span key={t} class="tag">{toolWords[t]}</span>)}
      {more.length > 0 && <span class="tag" title={more.map((t) => toolWords[t]).join(", ")}>+{more.length}<span class="visually-hidden">: {more.map((t) => toolWords[t]).join(", ")}</span></span>}
    </span>
  );
}

function Actions({ agent, gone }: { agent: Agent; gone: () => void }) {
  const drop = async () => {
    await del("/api/agents", { id: agent.id });
    toast(`${agent.name} was deleted.`);
    gone();
  };
  return (
    <div class="actions">
      <LinkButton look="bare" href={`/dashboard/agents/${agent.id}/settings`} label={`Settings of ${agent.name}`}>Settings</LinkButton>
      <Confirm look="remove" action="Delete" label={`Delete ${agent.name}`} question={`Delete ${agent.name}?`} onConfirm={drop} detail={<DeleteWords agent={agent} />} />
    </div>
  );
}
