// How the widget looks, with a preview that chats in the name of the signed-in person.
import { h } from "preact";
import { useEffect, useId, useState } from "preact/hooks";
import { useSession } from "../../state";
import { Button } from "../../ui/button";
import { Select, TextField } from "../../ui/field";
import { Section } from "../../ui/parts";
import type { Editor } from "./editor";
import type { Look } from "./examples";

const plain: Look = { title: "", greeting: "", accent: "", position: "", scheme: "" };
const looks = new Map<string, Look>(); // by agent, so that they survive a change of the tab
const accent = "#0b5a62"; // the widget's default
const pause = 400; // milliseconds without typing before the preview changes

/** Returns the chosen look of an agent's widget. It is part of the code to paste, and the service does not store it. */
export function useLook(agent: string): [Look, (change: Partial<Look>) => void] {
  const [look, setLook] = useState(() => looks.get(agent) ?? plain);
  const set = (change: Partial<Look>) => {
    const next = { ...look, ...change };
    looks.set(agent, next);
    setLook(next);
  };
  return [look, set];
}

const positions = [{ value: "", label: "Right corner" }, { value: "left", label: "Left corner" }];
const schemes = [{ value: "", label: "The visitor's system" }, { value: "light", label: "Light" }, { value: "dark", label: "Dark" }];

export function Appearance({ editor, look, set }: { editor: Editor; look: Look; set: (change: Partial<Look>) => void }) {
  const { agent } = editor;
  const here = agent.widget.enabled && agent.widget.allowedOrigins.includes(location.origin);
  return (
    <Section title="How it looks" intro="Your choices become part of the code below. The preview works before you allow an origin, and its messages are sent as yours.">
      <div class="appearance">
        <div class="stack">
          <TextField label="Title" value={look.title} maxLength={120} placeholder={agent.name} onChange={(title) => set({ title })} />
          <TextField label="Greeting" value={look.greeting} maxLength={2000} placeholder="How can I help?" onChange={(greeting) => set({ greeting })} hint="The first text in the chat, as Markdown." />
          <Colour value={look.accent} onChange={(to) => set({ accent: to })} />
          <Select label="Light or dark" value={look.scheme} options={schemes} onChange={(scheme) => set({ scheme })} />
          <Select label="Position" value={look.position} options={positions} onChange={(position) => set({ position })} />
          {here && <p class="hint"><a href={`/widget/preview?agent=${encodeURIComponent(agent.id)}`} target="_blank" rel="noopener">Open a page with the widget</a>, as visitors see it.</p>}
        </div>
        <Preview editor={editor} look={look} />
      </div>
    </Section>
  );
}

function Colour({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>Accent colour</label>
      <div class="row">
        <input id={id} type="color" class="colour" value={value || accent} aria-describedby={id + "-hint"} onInput={(e) => onChange(e.currentTarget.value)} />
        {value === "" ? <span class="quiet">default</span> : <><code>{value}</code><Button look="bare" onClick={() => onChange("")}>Use the default</Button></>}
      </div>
      <div class="hint" id={id + "-hint"}>Text on it is black or white, whichever is readable.</div>
    </div>
  );
}

/** Returns the value after it has not changed for a moment. */
function useSettled<T>(value: T): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), pause);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

/** Loads the widget, which is a bundle separate from the dashboard's. */
const fetchWidget = (): Promise<unknown> => import(document.getElementById("app")?.dataset["widget"] ?? "");

function Preview({ editor, look }: { editor: Editor; look: Look }) {
  const { id, name, suggestions } = editor.agent;
  const organization = useSession()?.organization.id;
  const [state, setState] = useState<"loading" | "ready" | "failed">("loading");
  const { title, greeting, accent: colour, scheme } = useSettled(look);
  useEffect(() => {
    fetchWidget().then(() => setState("ready"), () => setState("failed"));
  }, []);
  if (state === "failed") return <p class="note">Couldn't load the preview. Reload the page.</p>;
  if (state === "loading") return <div class="widget-preview" />;
  const preview = JSON.stringify({ organization, name, suggestions, attachments: editor.draft["widget.attachments"] });
  const attributes = { "agent-id": id, preview, "chat-title": title || name, greeting: greeting || undefined, accent: colour || undefined, scheme: scheme || undefined };
  return (
    <div class="widget-preview" role="group" aria-label="Preview of the widget">
      {h("agent-chat" as string, { key: JSON.stringify(attributes), ...attributes, inline: "" })}
    </div>
  );
}
