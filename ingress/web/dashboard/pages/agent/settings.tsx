// The settings page of an agent.
import { del } from "../../api";
import { go } from "../../router";
import type { Agent } from "../../types";
import { Confirm } from "../../ui/confirm";
import { Section } from "../../ui/parts";
import { toast } from "../../ui/toast";
import { DeleteWords } from "../agents/delete";
import { Basics, Callers, Models } from "./basics";
import { Connections } from "./connections";
import type { Editor } from "./editor";
import { ModelSettings } from "./modelsettings";
import { Answers } from "./output";
import { Tools } from "./tools";

const parts = [["basics", "Basics"], ["model", "Model"], ["model-settings", "Model settings"], ["answers", "Answers"], ["callers", "Who may call it"], ["tools", "Tools"], ["connections", "Connections"]] as const;

export function Settings({ editor }: { editor: Editor }) {
  const { agent } = editor;
  return (
    <div class="settings">
      <nav class="index" aria-label="Settings">
        <ul>
          {parts.map(([id, words]) => <li key={id}><a href={`#${id}`}>{words}</a></li>)}
          {editor.mayEdit && <li><a href="#delete">Delete</a></li>}
        </ul>
      </nav>
      <div class="stack">
        {!editor.mayEdit && <p class="note">You can view these settings. Only admins and owners of the organization can change them.</p>}
        <fieldset class="plain stack" disabled={!editor.mayEdit}>
          <legend class="visually-hidden">Settings of {agent.name}</legend>
          <div id="basics"><Basics editor={editor} /></div>
          <div id="model"><Models editor={editor} /></div>
          <div id="model-settings"><ModelSettings editor={editor} /></div>
          <div id="answers"><Answers editor={editor} /></div>
          <div id="callers"><Callers editor={editor} /></div>
          <div id="tools"><Tools editor={editor} /></div>
        </fieldset>
        <div id="connections"><Connections editor={editor} /></div>
        {editor.mayEdit && <div id="delete"><Delete agent={agent} /></div>}
      </div>
    </div>
  );
}

function Delete({ agent }: { agent: Agent }) {
  const drop = async () => {
    await del("/api/agents", { id: agent.id });
    toast(`${agent.name} was deleted.`);
    go("/dashboard/agents", { replace: true }); // replace skips the question about unsaved changes of the deleted agent
  };
  return (
    <Section title="Delete this agent" intro="Its queued runs are cancelled. Finished runs stay readable, and repeated requests with an idempotency key still get their results.">
      <Confirm action="Delete agent" question={`Delete ${agent.name}?`} onConfirm={drop} detail={<DeleteWords agent={agent} />} />
    </Section>
  );
}
