// The check of an agent's connections: models, search provider, MCP servers and endpoints.
import { useState } from "preact/hooks";
import { ApiError, post } from "../../api";
import type { AgentCheck } from "../../types";
import { Button } from "../../ui/button";
import { Curl } from "../../ui/curl";
import { duration, Problem, Section, Status, Time } from "../../ui/parts";
import { Table } from "../../ui/table";
import type { Editor } from "./editor";

const kinds: Record<string, string> = { model: "Model", webSearch: "Web search", mcp: "MCP server", httpRequest: "Endpoint", worker: "Worker" };

export function Connections({ editor }: { editor: Editor }) {
  const { agent } = editor;
  const [running, setRunning] = useState(false);
  const [error, setError] = useState<ApiError>();
  const params = { id: agent.id, action: "check" };
  const check = async () => {
    if (running) return;
    setRunning(true);
    setError(undefined);
    try {
      editor.checked(await post<AgentCheck>("/api/agents", undefined, params));
    } catch (failed) {
      if (!(failed instanceof ApiError)) throw failed;
      setError(failed);
    } finally {
      setRunning(false);
    }
  };
  return (
    <Section title="Connections" intro="Tries each model with a call of a few tokens, lists the tools of each MCP server, searches once, and connects to each endpoint's host without a request."
      actions={<><Curl what="Test connections" request={{ method: "POST", path: "/api/agents", params }} /><Button onClick={check} disabled={!editor.mayEdit}>{running ? "Testing …" : "Test connections"}</Button></>}>
      <div class="stack" aria-live="polite">
        {editor.changed.length > 0 && <p class="note warn">Unsaved changes are not tested.</p>}
        {error && <Problem error={error} retry={check} />}
        {agent.lastCheck ? <Results of={agent.lastCheck} version={agent.version} /> : <p class="quiet">Not tested yet.</p>}
      </div>
    </Section>
  );
}

function Results({ of, version }: { of: AgentCheck; version: number }) {
  return (
    <>
      <p>
        <Status of={of.ok ? "completed" : "failed"} /> <span class="quiet">Tested <Time at={of.checkedAt} />{of.version !== version && `, before the last change (version ${of.version})`}</span>
      </p>
      <Table caption="Connections" rows={of.checks} id={(c) => c.kind + c.name} columns={[
        { head: "Connection", cell: (c) => <>{kinds[c.kind] ?? c.kind} <code>{c.name}</code></> },
        { head: "Result", cell: (c) => <><Status of={c.ok ? "completed" : "failed"} /> {c.detail}</> },
        { head: "Time", end: true, tight: true, cell: (c) => duration(c.durationMs) },
      ]} />
    </>
  );
}
