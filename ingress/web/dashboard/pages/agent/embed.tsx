// The settings and code for embedding an agent's chat in other pages.
import { useState } from "preact/hooks";
import { useBaseUrl } from "../../state";
import { Button } from "../../ui/button";
import { Snippet } from "../../ui/copy";
import { saidOf, Switch, TextField } from "../../ui/field";
import { Section } from "../../ui/parts";
import { Appearance, useLook } from "./appearance";
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
  const [look, setLook] = useLook(editor.agent.id);
  return (
    <div class="stack use embeds">
      {!editor.mayEdit && <p class="note">You can view these settings. Only admins and owners of the organization can change them.</p>}
      <fieldset class="plain stack" disabled={!editor.mayEdit}>
        <legend class="visually-hidden">Widget of {editor.agent.name}</legend>
        <Section title="Where it may appear" intro="The widget shows a chat with this agent on your own pages. A page contains no key: browsers get short-lived tokens, and only on the origins listed here.">
          <div class="stack">
            <Switch label="Widget" hint="Pages on the allowed origins can show this agent." checked={draft["widget.enabled"]} onChange={(on) => set("widget.enabled", on)} />
            <Origins editor={editor} />
            <Switch label="Attachments" hint="Visitors can attach images and documents to their messages. Visitors are strangers, and models read what they send." checked={draft["widget.attachments"]} onChange={(on) => set("widget.attachments", on)} />
          </div>
        </Section>
      </fieldset>
      <Appearance editor={editor} look={look} set={setLook} />
      <Section title="Put it on your page" intro="Paste it before the end of the page's body. A second copy on the page has no effect.">
        <div class="stack">
          <div class="stack tighter">
            <Snippet text={scriptTag(where, look)} label="Script tag" />
          </div>
          <div class="stack tighter">
            <h3>Or inline, where the element is placed</h3>
            <Snippet text={element(where, look)} label="Element" />
          </div>
          <div class="stack tighter">
            <h3>If the page has a Content-Security-Policy</h3>
            <p class="quiet">The policy must allow this service's script and requests to this service. The widget needs no inline scripts or styles.</p>
            <Snippet text={policy(where.baseUrl)} label="Content-Security-Policy" />
          </div>
        </div>
      </Section>
      <Section title="Signed visitors" intro="Optional. Without an identity secret, visitors are anonymous, and only their browser remembers their chat. If your server signs their identity, they find their chat on every device, and no other visitor can impersonate them.">
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
    editor.clearFaults(); // errors refer to positions in the list
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
          ? <p class="hint">No origin yet, so no page can show the widget. Add an origin.</p>
          : (
            <ul class="chips" aria-labelledby="origins">
              {origins.map((o, i) => (
                <li key={o} class={"chip" + (editor.fault(`${field}[${i}]`) ? " wrong" : "")}>
                  <code>{o}</code>
                  <Button look="bare" icon="close" label={`Remove ${o}`} onClick={() => change(origins.filter((other) => other !== o))} />
                  {editor.fault(`${field}[${i}]`) && <span class="fault">{saidOf("The origin", editor.fault(`${field}[${i}]`) ?? "")}</span>}
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
              hint="Scheme and host, and the port if it isn't the default. Separate several with spaces." />
          </div>
          <Button type="submit" disabled={text.trim() === ""}>Add</Button>
        </form>
      )}
    </div>
  );
}
