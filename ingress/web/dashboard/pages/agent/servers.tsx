// The settings of an agent's MCP servers.
import { Button } from "../../ui/button";
import { saidOf, Select, TextField } from "../../ui/field";
import { newServer, type ServerDraft } from "./draft";
import type { Editor } from "./editor";
import { effectMeanings, effects } from "./endpoints";
import { Pairs } from "./pairs";

const most = 16;

export function Servers({ editor }: { editor: Editor }) {
  const field = "tools.mcp.servers";
  const servers = editor.draft[field];
  const change = (list: ServerDraft[]) => {
    if (list.length !== servers.length) editor.clearFaults(); // errors refer to positions in the list
    editor.set(field, list);
  };
  return (
    <div class="stack tight">
      {servers.length === 0 && <p class="quiet">No servers yet. Each run lists a server's tools when it starts. The model sees them as server_tool.</p>}
      <ul class="entries" aria-label="MCP servers">
        {servers.map((s, i) => (
          <li key={s.key} class="entry">
            <Server editor={editor} server={s} at={`${field}[${i}]`} change={(next) => change(servers.with(i, next))} />
            <div class="entry-foot"><Button look="bare" icon="trash" onClick={() => change(servers.toSpliced(i, 1))}>{`Remove ${s.name || "this server"}`}</Button></div>
          </li>
        ))}
      </ul>
      {editor.fault(field) && <p class="fault">{saidOf("The list", editor.fault(field) ?? "")}</p>}
      <div class="row">
        {servers.length < most && <Button icon="plus" onClick={() => change([...servers, newServer()])}>Add a server</Button>}
        <span class="hint number">{servers.length} of {most}</span>
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
        <TextField label="Server name" mono value={s.name} required maxLength={64} onChange={(name) => set({ name })} fault={fault("name")} hint="The prefix of its tools' names." />
        <TextField label="Server URL" mono value={s.url} required placeholder="https://mcp.example/" onChange={(url) => set({ url })} fault={fault("url")} hint="Streamable HTTP." />
      </div>
      <Select label="Side effect of its tools" value={s.sideEffect} options={effects} onChange={(sideEffect) => set({ sideEffect })} fault={fault("sideEffect")} hint={effectMeanings[s.sideEffect]} />
      <Pairs legend="Headers" hint="Sent with each request. Values are encrypted, and shown as *** once saved. Type to replace a value." rows={s.headers} secret
        onChange={(headers) => set({ headers })} fault={editor.fault} at={`${at}.headers`} nameLabel="Header" add="Add a header" />
    </div>
  );
}
