// The settings of an agent's tools.
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import type { Approval } from "../../types";
import { Select, Switch, TextField, type Choice } from "../../ui/field";
import { Icon, type IconName } from "../../ui/icon";
import { Section } from "../../ui/parts";
import { toolWords, type ToolName } from "../../toolnames";
import type { Editor } from "./editor";
import { Endpoints } from "./endpoints";
import { Knowledge } from "./knowledge";
import { Servers } from "./servers";

export function Tools({ editor }: { editor: Editor }) {
  const { draft, set, fault } = editor;
  return (
    <Section title="Tools" intro="The tools that the agent may use. A run uses the tools that were on when it was accepted.">
      <div class="tools">
        <Tool editor={editor} name="webSearch" icon="search" what="Searches the web, reads what it finds, and cites it." />
        <Tool editor={editor} name="knowledge" icon="knowledge" what="Searches your organization's documents and cites them.">
          <Knowledge editor={editor} />
        </Tool>
        <Tool editor={editor} name="codeExecution" icon="curl" what="Writes and runs Python, each call in a fresh sandbox without a network.">
          <Switch label="Keep files" checked={draft["tools.codeExecution.keepFiles"]} onChange={(on) => set("tools.codeExecution.keepFiles", on)}
            hint="Calls in a session share a working folder while the session's runs are stored. If this is off, a call sees only the files that it names." />
        </Tool>
        <Tool editor={editor} name="httpRequest" icon="link" what="Calls the endpoints listed here, and no others.">
          <Endpoints editor={editor} />
        </Tool>
        <Tool editor={editor} name="mcp" icon="tool" what="Uses the tools of remote MCP servers.">
          <Servers editor={editor} />
        </Tool>
        <Tool editor={editor} name="voice" icon="voice" what="Lets people speak with the agent, in the playground and over the API.">
          <TextField label="Voice" value={draft["tools.voice.voice"]} maxLength={64} onChange={(v) => set("tools.voice.voice", v)} fault={fault("tools.voice.voice")}
            hint="OpenAI's voice names, for example alloy, echo, nova or shimmer, always work. Other names depend on the speech service (espeak-ng: en-gb, en-us+f3). If empty, the speech service chooses." />
        </Tool>
      </div>
    </Section>
  );
}

function Tool({ editor, name, icon, what, children }: { editor: Editor; name: ToolName; icon: IconName; what: string; children?: ComponentChildren }) {
  const enabled = `tools.${name}.enabled` as const;
  const on = editor.draft[enabled];
  const id = useId();
  return (
    <section class={"tool" + (on ? " on" : "")} aria-labelledby={id}>
      <h3 class="visually-hidden" id={id}>{toolWords[name]}</h3>
      <div class="tool-head">
        <Icon name={icon} />
        <Switch label={toolWords[name]} hint={what} checked={on} onChange={(value) => editor.set(enabled, value)} />
      </div>
      {on && (
        <div class="tool-options stack">
          {children}
          {name !== "voice" && <Approvals editor={editor} name={name} />}
        </div>
      )}
    </section>
  );
}

const approvals: readonly Choice<Approval>[] = [
  { value: "never", label: "Never" },
  { value: "unsafe", label: "Before unsafe calls" },
  { value: "always", label: "Before each call" },
];

const meanings: Record<Approval, string> = {
  never: "Calls are made immediately, without a decision.",
  unsafe: "The run waits for a person's decision before a call whose side effect is unsafe: repeating such a call repeats its effect.",
  always: "The run waits up to 24 hours for a person's decision before each call to this tool.",
};

const harmless: Partial<Record<ToolName, string>> = {
  webSearch: "Searches have no side effects, so no decision is needed.", knowledge: "Searches have no side effects, so no decision is needed.", codeExecution: "Programs run in a sandbox and count as free of side effects, so no decision is needed.",
};

function Approvals({ editor, name }: { editor: Editor; name: Exclude<ToolName, "voice"> }) {
  const field = `tools.${name}.approval` as const;
  const value = editor.draft[field];
  return (
    <Select label="Ask a person first" value={value} options={approvals} onChange={(v) => editor.set(field, v)} fault={editor.fault(field)}
      hint={value === "unsafe" ? harmless[name] ?? meanings.unsafe : meanings[value]} />
  );
}
