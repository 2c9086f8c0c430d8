// The settings of an agent's MCP servers.
import * as texts from "../../texts/tools";
import { Words } from "../../texts/tools";
import { Button } from "../../ui/button";
import { faultSentence, Select, TextField } from "../../ui/field";
import { newServer, type ServerDraft } from "./draft";
import type { Editor } from "./editor";
import { effectMeanings, effects } from "./endpoints";
import { Pairs } from "./pairs";

const maxServers = 16;

export function Servers({ editor }: { editor: Editor }) {
  const field = "tools.mcp.servers";
  const servers = editor.draft[field];
  const change = (list: ServerDraft[]) => {
    if (list.length !== servers.length) editor.clearFaults(); // errors name entries by their position, which may have changed
    editor.set(field, list);
  };
  return (
    <div class="stack tight">
      {servers.length === 0 && <p class="quiet">{Words.noServersYet}</p>}
      <ul class="entries" aria-label={Words.mcpServers}>
        {servers.map((s, i) => (
          <li key={s.key} class="entry">
            <Server editor={editor} server={s} at={`${field}[${i}]`} change={(next) => change(servers.with(i, next))} />
            <div class="entry-foot"><Button look="bare" icon="trash" onClick={() => change(servers.toSpliced(i, 1))}>{texts.removeName(s.name || Words.thisServer)}</Button></div>
          </li>
        ))}
      </ul>
      {editor.fault(field) && <p class="fault">{faultSentence(Words.theList, editor.fault(field) ?? "")}</p>}
      <div class="row">
        {servers.length < maxServers && <Button icon="plus" onClick={() => change([...servers, newServer()])}>{Words.addAServer}</Button>}
        <span class="hint number">{texts.serversOfMax(servers.length, maxServers)}</span>
      </div>
    </div>
  );
}

function Server({ editor, server: s, at, change }: { editor: Editor; server: ServerDraft; at: string; change: (server: ServerDraft) => void }) {
  const fault = (name: string) => editor.fault(`${at}.${name}`);
  const set = (part: Partial<ServerDraft>) => change({ ...s, ...part });
  return (
    <div class="entry-body">
      <div class="columns">
        <TextField label={Words.serverName} mono value={s.name} required maxLength={64} onChange={(name) => set({ name })} fault={fault("name")} hint={Words.prefixOfItsTools} />
        <TextField label={Words.serverUrl} mono value={s.url} required placeholder="https://mcp.example/" onChange={(url) => set({ url })} fault={fault("url")} hint={Words.streamableHttp} />
      </div>
      <Select label={Words.sideEffectOfItsTools} value={s.sideEffect} options={effects} onChange={(sideEffect) => set({ sideEffect })} fault={fault("sideEffect")} hint={effectMeanings[s.sideEffect]} />
      <Pairs legend={Words.headers} hint={Words.sentWithEachRequest} rows={s.headers} secret
        onChange={(headers) => set({ headers })} fault={editor.fault} at={`${at}.headers`} nameLabel={Words.header} add={Words.addAHeader} />
    </div>
  );
}
