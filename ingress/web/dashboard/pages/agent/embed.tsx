// The settings and code for embedding an agent's chat in other pages.
import { useEffect, useRef, useState } from "preact/hooks";
import { useBaseUrl } from "../../state";
import * as texts from "../../texts/embed";
import { Words } from "../../texts/embed";
import { Button } from "../../ui/button";
import { Snippet } from "../../ui/copy";
import { faultSentence, showFault, Switch, TextField } from "../../ui/field";
import { Section } from "../../ui/parts";
import { Appearance } from "./appearance";
import { hidden } from "./draft";
import type { Editor } from "./editor";
import { element, policy, scriptTag, signedTag, signatureCode } from "./examples";
import { Languages } from "./languages";
import { useLook } from "./look";
import { parseOrigins } from "./origin";
import { random, Secret } from "./secret";

const maxOrigins = 50;

export function Embed({ editor }: { editor: Editor }) {
  const where = { baseUrl: useBaseUrl(), id: editor.agent.id };
  const { draft, set } = editor;
  const [look, setLook] = useLook(editor.agent.id);
  return (
    <div class="stack use embeds">
      {!editor.mayEdit && <p class="note">{Words.youCanViewThese}</p>}
      <fieldset class="plain stack" disabled={!editor.mayEdit}>
        <legend class="visually-hidden">{texts.widgetOfName(editor.agent.name)}</legend>
        <Section title={Words.whereItMayAppear} intro={Words.widgetShowsChat}>
          <div class="stack">
            <Switch label={Words.widget} hint={Words.pagesOnAllowedOrigins} checked={draft["widget.enabled"]} onChange={(on) => set("widget.enabled", on)} />
            <Origins editor={editor} />
            <Switch label={Words.attachments} hint={Words.visitorsCanAttachImages} checked={draft["widget.attachments"]} onChange={(on) => set("widget.attachments", on)} />
          </div>
        </Section>
      </fieldset>
      <Appearance editor={editor} look={look} set={setLook} code={scriptTag(where, look)} />
      <Section title={Words.putItOnYourPage} intro={Words.pasteItBeforeEnd}>
        <div class="stack">
          <div class="stack tighter">
            <Snippet text={scriptTag(where, look)} label={Words.scriptTag} />
          </div>
          <div class="stack tighter">
            <h3>{Words.orInlineWhereElement}</h3>
            <Snippet text={element(where, look)} label={Words.element} />
          </div>
          <div class="stack tighter">
            <h3>{Words.ifPageHasContent}</h3>
            <p class="quiet">{Words.policyMustAllow}</p>
            <Snippet text={policy(where.baseUrl)} label={Words.contentSecurityPolicy} />
          </div>
        </div>
      </Section>
      <Section title={Words.signedVisitors} intro={Words.optionalWithoutIdentitySecret}>
        <div class="stack">
          <fieldset class="plain" disabled={!editor.mayEdit}>
            <legend class="visually-hidden">{Words.identitySecret}</legend>
            <Secret label={Words.identitySecret} value={draft["widget.identitySecret"]} saved={editor.base["widget.identitySecret"] === hidden} fault={editor.fault("widget.identitySecret")}
              generate={() => random(32, "hex")} onChange={(v) => set("widget.identitySecret", v)} hint={Words.to256Characters} />
          </fieldset>
          <Languages what={Words.signAVisitor} of={signatureCode(where)} />
          <Snippet text={signedTag(where)} label={Words.scriptTagWithSigned} />
        </div>
      </Section>
    </div>
  );
}

function Origins({ editor }: { editor: Editor }) {
  const field = "widget.allowedOrigins";
  const origins = editor.draft[field];
  const enabled = editor.draft["widget.enabled"];
  const [text, setText] = useState("");
  const [refused, setRefused] = useState({ fault: "" });
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => void showFault(form.current), [refused]);
  const change = (next: string[]) => {
    editor.clearFaults(); // errors name entries by their position, which may change
    editor.set(field, next);
  };
  const type = (words: string) => {
    setText(words);
    if (refused.fault !== "") setRefused({ fault: "" });
  };
  const add = () => {
    const found = parseOrigins(text);
    setRefused(found);
    if (found.fault !== "") return;
    setText("");
    change([...new Set([...origins, ...found.origins])]);
  };
  return (
    <div class="stack tight">
      <div class="field">
        <span class="label" id="origins">{Words.allowedOrigins}</span>
        {origins.length === 0
          ? <p class="hint">{Words.noOriginYet}</p>
          : (
            <ul class="chips" aria-labelledby="origins">
              {origins.map((o, i) => (
                <li key={o} class={"chip" + (editor.fault(`${field}[${i}]`) ? " wrong" : "")}>
                  <code>{o}</code>
                  <Button look="bare" icon="close" label={texts.removeValue(o)} onClick={() => change(origins.filter((other) => other !== o))} />
                  {editor.fault(`${field}[${i}]`) && <span class="fault">{faultSentence(Words.theOrigin, editor.fault(`${field}[${i}]`) ?? "")}</span>}
                </li>
              ))}
            </ul>
          )}
        {origins.length > 0 && !enabled && <p class="note warn">{Words.widgetIsOff}</p>}
        {editor.fault(field) && <div class="fault">{faultSentence(Words.theList, editor.fault(field) ?? "")}</div>}
      </div>
      {origins.length < maxOrigins && (
        <form ref={form} class="with-buttons end" onSubmit={(e) => { e.preventDefault(); add(); }}>
          <div class="grow">
            <TextField label={Words.addAnOrigin} mono value={text} placeholder="https://www.example.com" onChange={type} fault={refused.fault || undefined}
              hint={Words.schemeAndHost} />
          </div>
          <Button type="submit" disabled={text.trim() === ""}>{Words.add}</Button>
        </form>
      )}
    </div>
  );
}
