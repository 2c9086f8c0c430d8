// The settings page of an agent.
import { useEffect, useRef, useState } from "preact/hooks";
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
      <Index parts={editor.mayEdit ? [...parts, ["delete", Words.deleteIt]] : parts} />
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

/**
 * Links to the sections, and marks the current one. On a wide screen the list stays where it is
 * while the page scrolls, so that the clicked link stays under the pointer.
 */
function Index({ parts }: { parts: readonly (readonly [id: string, words: string])[] }) {
  const list = useRef<HTMLElement>(null);
  const [current, setCurrent] = useState("");
  const jumped = useRef(false); // whether the next scroll event comes from a click; the page may be too short to reach the chosen section
  useEffect(() => {
    const look = () => {
      const nav = list.current;
      if (!nav?.parentElement) return;
      const start = nav.parentElement.getBoundingClientRect().top + scrollY;
      nav.style.top = `${Math.max(0, Math.min(start, innerHeight - nav.offsetHeight))}px`;
      if (!jumped.current) setCurrent(parts.findLast(([id]) => (document.getElementById(id)?.getBoundingClientRect().top ?? Infinity) < innerHeight / 3)?.[0] ?? "");
      jumped.current = false;
    };
    look();
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => {
      removeEventListener("scroll", look);
      removeEventListener("resize", look);
    };
  }, [parts.length]);
  const choose = (id: string) => {
    jumped.current = true;
    setCurrent(id);
  };
  return (
    <nav class="index" aria-label={Words.settings} ref={list}>
      <ul>
        {parts.map(([id, words]) => <li key={id}><a href={`#${id}`} aria-current={id === current ? "true" : undefined} onClick={() => choose(id)}>{words}</a></li>)}
      </ul>
    </nav>
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
