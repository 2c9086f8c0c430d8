// The check of an agent's connections: models, search provider, MCP servers and endpoints.
import { useState } from "preact/hooks";
import { ApiError, post } from "../../api";
import * as texts from "../../texts/tools";
import { Words } from "../../texts/tools";
import type { AgentCheck } from "../../types";
import { Button } from "../../ui/button";
import { Curl } from "../../ui/curl";
import { duration, Problem, Section, Status, Time } from "../../ui/parts";
import { Table } from "../../ui/table";
import type { Editor } from "./editor";

const kinds: Record<string, string> = { model: Words.model, webSearch: Words.webSearch, mcp: Words.mcpServer, httpRequest: Words.endpoint, worker: Words.worker };

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
    <Section title={Words.connections} intro={Words.triesEachModel}
      actions={<><Curl what={Words.testConnections} request={{ method: "POST", path: "/api/agents", params }} /><Button onClick={check} disabled={!editor.mayEdit}>{running ? Words.testing : Words.testConnections}</Button></>}>
      <div class="stack" aria-live="polite">
        {editor.changed.length > 0 && <p class="note warn">{Words.unsavedChangesAreNotTested}</p>}
        {error && <Problem error={error} retry={check} />}
        {agent.lastCheck ? <Results of={agent.lastCheck} version={agent.version} /> : <p class="quiet">{Words.notTestedYet}</p>}
      </div>
    </Section>
  );
}

function Results({ of, version }: { of: AgentCheck; version: number }) {
  return (
    <>
      <p>
        <Status of={of.ok ? "completed" : "failed"} /> <span class="quiet">{texts.testedTimeVersion(<Time at={of.checkedAt} />, of.version !== version && texts.beforeLastChangeVersion(of.version))}</span>
      </p>
      <Table caption={Words.connections} rows={of.checks} id={(c) => c.kind + c.name} columns={[
        { head: Words.connection, cell: (c) => <>{kinds[c.kind] ?? c.kind} <code>{c.name}</code></> },
        { head: Words.result, cell: (c) => <><Status of={c.ok ? "completed" : "failed"} /> {c.detail}</> },
        { head: Words.time, end: true, tight: true, cell: (c) => duration(c.durationMs) },
      ]} />
    </>
  );
}
