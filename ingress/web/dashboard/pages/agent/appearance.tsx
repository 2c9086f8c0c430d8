// The appearance of an agent's widget, with a preview in which the signed-in person can chat.
import { h } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { useSession } from "../../state";
import * as texts from "../../texts/embed";
import { Words } from "../../texts/embed";
import { Button } from "../../ui/button";
import { Copy } from "../../ui/copy";
import { Select, TextField } from "../../ui/field";
import { Section } from "../../ui/parts";
import type { Editor } from "./editor";
import type { Look } from "./examples";

const accent = "#0b5a62"; // the default colour of the widget
const pause = 400; // milliseconds without typing before the preview changes

const positions = [{ value: "", label: Words.rightCorner }, { value: "left", label: Words.leftCorner }];
const schemes = [{ value: "", label: Words.theVisitorsSystem }, { value: "light", label: Words.light }, { value: "dark", label: Words.dark }];

/**
 * The fields for the look of the widget, with a preview. The preview is above the fields, or beside
 * them in a wide window. The property code contains the code to paste.
 */
export function Appearance({ editor, look, set, code }: { editor: Editor; look: Look; set: (change: Partial<Look>) => void; code: string }) {
  const { agent } = editor;
  const here = agent.widget.enabled && agent.widget.allowedOrigins.includes(location.origin);
  return (
    <Section title={Words.howItLooks} intro={Words.previewWorksWithoutOrigin}>
      <div class="appearance">
        <Preview editor={editor} look={look} />
        <div class="stack">
          <TextField label={Words.title} value={look.title} maxLength={120} placeholder={agent.name} onChange={(title) => set({ title })} />
          <TextField label={Words.greeting} value={look.greeting} maxLength={2000} placeholder={Words.howCanIHelp} onChange={(greeting) => set({ greeting })} hint={Words.firstTextInChat} />
          <Colour value={look.accent} onChange={(to) => set({ accent: to })} />
          <Select label={Words.lightOrDark} value={look.scheme} options={schemes} onChange={(scheme) => set({ scheme })} />
          <Select label={Words.position} value={look.position} options={positions} onChange={(position) => set({ position })} />
          <div class="note">
            <p>{Words.lookIsPartOfCode}</p>
            <Copy text={code} label={Words.copyTheCode} words={Words.copyTheCode} />
          </div>
          {here && <p class="hint">{texts.openPageWithWidget(`/widget/preview?agent=${encodeURIComponent(agent.id)}`)}</p>}
        </div>
      </div>
    </Section>
  );
}

function Colour({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{Words.accentColour}</label>
      <div class="row">
        <input id={id} type="color" class="colour" value={value || accent} aria-describedby={id + "-hint"} onInput={(e) => onChange(e.currentTarget.value)} />
        {value === "" ? <span class="quiet">{Words.defaultWord}</span> : <><code>{value}</code><Button look="bare" onClick={() => onChange("")}>{Words.useTheDefault}</Button></>}
      </div>
      <div class="hint" id={id + "-hint"}>{Words.textOnItIsBlack}</div>
    </div>
  );
}

/** Returns a value after it has not changed for a moment. */
function useDebounced<T>(value: T): T {
  const [debounced, setDebounced] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setDebounced(value), pause);
    return () => clearTimeout(timer);
  }, [value]);
  return debounced;
}

/** Loads the widget, which is a bundle separate from the dashboard's. */
const fetchWidget = (): Promise<unknown> => import(document.getElementById("app")?.dataset["widget"] ?? "");

function Preview({ editor, look }: { editor: Editor; look: Look }) {
  const { id, name, suggestions } = editor.agent;
  const organization = useSession()?.organization.id;
  const [state, setState] = useState<"loading" | "ready" | "failed">("loading");
  const { title, greeting, accent: colour, scheme } = useDebounced(look);
  const frame = useRef<HTMLDivElement>(null);
  useEffect(() => { // the widget is loaded once the top of the preview is above the lowest quarter of the window
    if (!frame.current) return;
    const seen = new IntersectionObserver(([entry]) => {
      if (!entry?.isIntersecting) return;
      seen.disconnect();
      fetchWidget().then(() => setState("ready"), () => setState("failed"));
    }, { rootMargin: "0% 0% -25%" });
    seen.observe(frame.current);
    return () => seen.disconnect();
  }, []);
  if (state === "failed") return <p class="note">{Words.couldntLoadPreviewReload}</p>;
  if (state === "loading") return <div ref={frame} class="widget-preview" role="group" aria-label={Words.previewOfWidget} />;
  const preview = JSON.stringify({ organization, name, suggestions, attachments: editor.draft["widget.attachments"] });
  const attributes = { "agent-id": id, preview, "chat-title": title || name, greeting: greeting || undefined, accent: colour || undefined, scheme: scheme || undefined };
  return (
    <div class="widget-preview" role="group" aria-label={Words.previewOfWidget}>
      {h("agent-chat" as string, { key: JSON.stringify(attributes), ...attributes, inline: "" })}
    </div>
  );
}
