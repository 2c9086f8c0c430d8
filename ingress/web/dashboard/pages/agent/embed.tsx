// Putting an agent's chat on other pages.
import { useState } from "preact/hooks";
import { useBaseUrl } from "../../state";
import { Button } from "../../ui/button";
import { Snippet } from "../../ui/copy";
import { saidOf, Switch, TextField } from "../../ui/field";
import { Icon } from "../../ui/icon";
import { Section } from "../../ui/parts";
import { hidden } from "./draft";
import type { Editor } from "./editor";
import { element, policy, scriptTag, signedTag, signing } from "./examples";
import { Languages } from "./languages";
import { originsOf } from "./origin";
import { random, Secret } from "./secret";

const most = 50;

export function Embed({ editor }: { editor: Editor }) {
  const where = { baseUrl: useBaseUrl(), id: editor.agent.id };
  const { draft, set } = editor;
  return (
    <div class="stack use">
      {!editor.mayEdit && <p class="note">You may read these settings. Admins and owners of the organization change them.</p>}
      <fieldset class="plain stack" disabled={!editor.mayEdit}>
        <legend class="visually-hidden">Widget of {editor.agent.name}</legend>
        <Section title="Where it may appear" intro="The widget is a chat with this agent on a page of yours. The page holds no key: browsers get short-lived tokens, on the pages listed here only.">
          <div class="stack">
            <Switch label="Widget" hint="Pages of the allowed origins may show this agent." checked={draft["widget.enabled"]} onChange={(on) => set("widget.enabled", on)} />
            <Origins editor={editor} />
          </div>
        </Section>
      </fieldset>
      <Section title="Try it"><Preview editor={editor} /></Section>
      <Section title="Put it on your page" intro="One line before the end of the page's body. Pasted twice it shows once.">
        <div class="stack">
          <div class="stack tighter">
            <Snippet text={scriptTag(where)} label="Script tag" />
            <p class="hint"><code>data-title</code>, <code>data-greeting</code>, <code>data-accent</code> and <code>data-position</code> change how it looks.</p>
          </div>
          <div class="stack tighter">
            <h3>Or within the page, where the element stands</h3>
            <Snippet text={element(where)} label="Element" />
          </div>
          <div class="stack tighter">
            <h3>If the page has a Content-Security-Policy</h3>
            <p class="quiet">It has to allow the script and the requests to this service. The widget needs no inline script and no inline style.</p>
            <Snippet text={policy(where.baseUrl)} label="Content-Security-Policy" />
          </div>
        </div>
      </Section>
      <Section title="Signed visitors" intro="Optional. Visitors are strangers otherwise, known by what their browser keeps. When your server signs who somebody is, they find their chat again on every device, and nobody can pose as them.">
        <div class="stack">
          <fieldset class="plain" disabled={!editor.mayEdit}>
            <legend class="visually-hidden">Identity secret</legend>
            <Secret label="Identity secret" value={draft["widget.identitySecret"]} saved={editor.base["widget.identitySecret"] === hidden} fault={editor.fault("widget.identitySecret")}
              generate={() => random(32, "hex")} onChange={(v) => set("widget.identitySecret", v)} hint="16 to 256 characters, for your server only." />
          </fieldset>
          <Languages what="Sign a visitor" of={signing(where)} />
          <Snippet text={signedTag(where)} label="Script tag with a signed visitor" />
        </div>
      </Section>
    </div>
  );
}

function Origins({ editor }: { editor: Editor }) {
  const field = "widget.allowedOrigins";
  const origins = editor.draft[field];
  const [text, setText] = useState("");
  const [refused, setRefused] = useState("");
  const change = (next: string[]) => {
    editor.clearFaults(); // they are named by places in the list
    editor.set(field, next);
  };
  const type = (words: string) => {
    setText(words);
    setRefused("");
  };
  const add = () => {
    const found = originsOf(text);
    setRefused(found.fault);
    if (found.fault !== "") return;
    setText("");
    change([...new Set([...origins, ...found.origins])]);
  };
  return (
    <div class="stack tight">
      <div class="field">
        <span class="label" id="origins">Allowed origins</span>
        {origins.length === 0
          ? <p class="hint">None yet: the widget is refused everywhere.</p>
          : (
            <ul class="chips" aria-labelledby="origins">
              {origins.map((o, i) => (
                <li key={o} class={"chip" + (editor.fault(`${field}[${i}]`) ? " wrong" : "")}>
                  <code>{o}</code>
                  <Button look="bare" icon="close" label={`Remove ${o}`} onClick={() => change(origins.filter((other) => other !== o))} />
                  {editor.fault(`${field}[${i}]`) && <span class="fault">{saidOf("It", editor.fault(`${field}[${i}]`) ?? "")}</span>}
                </li>
              ))}
            </ul>
          )}
        {editor.fault(field) && <div class="fault">{saidOf("The list", editor.fault(field) ?? "")}</div>}
      </div>
      {origins.length < most && (
        <form class="with-buttons end" onSubmit={(e) => { e.preventDefault(); add(); }}>
          <div class="grow">
            <TextField label="Add an origin" mono value={text} placeholder="https://www.example.com" onChange={type} fault={refused || undefined}
              hint="A scheme and a host, and a port if it has one of its own. Several at once: with spaces between." />
          </div>
          <Button type="submit" disabled={text.trim() === ""}>Add</Button>
        </form>
      )}
    </div>
  );
}

/** The preview is a page of this service: its own address must be in the list, as any other page's. */
function Preview({ editor }: { editor: Editor }) {
  const { agent, draft, set, mayEdit } = editor;
  const here = location.origin;
  const saved = agent.widget.enabled && agent.widget.allowedOrigins.includes(here);
  const typed = draft["widget.enabled"] && draft["widget.allowedOrigins"].includes(here);
  const allow = () => {
    set("widget.enabled", true);
    set("widget.allowedOrigins", [...new Set([...draft["widget.allowedOrigins"], here])]);
  };
  if (saved) {
    return (
      <div class="stack tight">
        <p class="quiet">A page of this service with the widget in it, as your visitors would see it.</p>
        <div><a class="button" href={`/widget/preview?agent=${encodeURIComponent(agent.id)}`} target="_blank" rel="noopener"><Icon name="widget" />Open the preview</a></div>
      </div>
    );
  }
  return (
    <div class="stack tight">
      <p class="quiet">
        The preview is a page of this service, so <code>{here}</code> has to be in the list, and the widget has to be on. {typed ? "Both are, once you save." : ""} Take it out again when you are done, if you like.
      </p>
      {mayEdit && !typed && <div><Button icon="plus" onClick={allow}>Allow the preview</Button></div>}
    </div>
  );
}
