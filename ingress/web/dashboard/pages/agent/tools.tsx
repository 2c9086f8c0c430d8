// The settings of an agent's tools.
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import { Words } from "../../texts/tools";
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
    <Section title={Words.tools} intro={Words.toolsThatAgent}>
      <div class="tools">
        <Tool editor={editor} name="webSearch" icon="search" what={Words.searchesWebReads} />
        <Tool editor={editor} name="knowledge" icon="knowledge" what={Words.searchesYourOrganizationsDocuments}>
          <Knowledge editor={editor} />
        </Tool>
        <Tool editor={editor} name="codeExecution" icon="curl" what={Words.writesAndRunsPython}>
          <Switch label={Words.keepFiles} checked={draft["tools.codeExecution.keepFiles"]} onChange={(on) => set("tools.codeExecution.keepFiles", on)}
            hint={Words.callsInSessionShare} />
        </Tool>
        <Tool editor={editor} name="httpRequest" icon="link" what={Words.callsEndpointsListedHere}>
          <Endpoints editor={editor} />
        </Tool>
        <Tool editor={editor} name="mcp" icon="tool" what={Words.usesToolsOfRemote}>
          <Servers editor={editor} />
        </Tool>
        <Tool editor={editor} name="voice" icon="voice" what={Words.letsPeopleSpeak}>
          <TextField label={Words.voice} value={draft["tools.voice.voice"]} maxLength={64} onChange={(v) => set("tools.voice.voice", v)} fault={fault("tools.voice.voice")}
            hint={Words.openaisVoiceNames} />
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
  { value: "never", label: Words.never },
  { value: "unsafe", label: Words.beforeUnsafeCalls },
  { value: "always", label: Words.beforeEachCall },
];

const meanings: Record<Approval, string> = {
  never: Words.callsAreMadeImmediately,
  unsafe: Words.runWaitsForPersons,
  always: Words.runWaitsUpTo24,
};

const harmless: Partial<Record<ToolName, string>> = {
  webSearch: Words.searchesHaveNoSide, knowledge: Words.searchesHaveNoSide, codeExecution: Words.programsRunInSandbox,
};

function Approvals({ editor, name }: { editor: Editor; name: Exclude<ToolName, "voice"> }) {
  const field = `tools.${name}.approval` as const;
  const value = editor.draft[field];
  return (
    <Select label={Words.askPersonFirst} value={value} options={approvals} onChange={(v) => editor.set(field, v)} fault={editor.fault(field)}
      hint={value === "unsafe" ? harmless[name] ?? meanings.unsafe : meanings[value]} />
  );
}
