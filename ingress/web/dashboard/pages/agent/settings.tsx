// The settings page of an agent.
import { del } from "../../api";
import { go } from "../../router";
import * as texts from "../../texts/agent";
import { Words } from "../../texts/agent";
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

const parts = [["basics", Words.basics], ["model", Words.model], ["model-settings", Words.modelSettings], ["answers", Words.answers], ["callers", Words.whoMayCallIt], ["tools", Words.tools], ["connections", Words.connections]] as const;

export function Settings({ editor }: { editor: Editor }) {
  const { agent } = editor;
  return (
    <div class="settings">
      <nav class="index" aria-label={Words.settings}>
        <ul>
          {parts.map(([id, words]) => <li key={id}><a href={`#${id}`}>{words}</a></li>)}
          {editor.mayEdit && <li><a href="#delete">{Words.deleteIt}</a></li>}
        </ul>
      </nav>
      <div class="stack">
        {!editor.mayEdit && <p class="note">{Words.youCanViewThese}</p>}
        <fieldset class="plain stack" disabled={!editor.mayEdit}>
          <legend class="visually-hidden">{texts.settingsOfName(agent.name)}</legend>
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
    toast(texts.nameWasDeleted(agent.name));
    go("/dashboard/agents", { replace: true }); // with replace, the page does not ask about unsaved changes of the deleted agent
  };
  return (
    <Section title={Words.deleteThisAgent} intro={Words.itsQueuedRuns}>
      <Confirm action={Words.deleteAgent} question={texts.deleteName(agent.name)} onConfirm={drop} detail={<DeleteWords agent={agent} />} />
    </Section>
  );
}
