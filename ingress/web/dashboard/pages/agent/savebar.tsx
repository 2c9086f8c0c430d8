// The bar with the unsaved changes, their errors, and conflicts.
import { useEffect } from "preact/hooks";
import * as texts from "../../texts/agent";
import { Words } from "../../texts/agent";
import { Button } from "../../ui/button";
import { Curl } from "../../ui/curl";
import { showFault } from "../../ui/field";
import { Icon } from "../../ui/icon";
import { Time } from "../../ui/parts";
import { changeBody, changedFields, newDraft, findFaults, fieldLabels } from "./draft";
import type { Editor } from "./editor";
import { faultText } from "./words";

export function SaveBar({ editor }: { editor: Editor }) {
  useSaveKey(editor.save);
  const { error, refused } = editor;
  useEffect(() => {
    if (error) showFault(document.querySelector("main"));
  }, [refused]);
  const shown = editor.mayEdit && (editor.changed.length > 0 || editor.theirs !== undefined || editor.saved);
  useEffect(() => {
    const field = document.activeElement;
    if (shown && field && field.clientHeight < innerHeight / 2) field.scrollIntoView({ block: "nearest" }); // the bar may cover it
  }, [shown]);
  if (!shown) return null;
  const saved = editor.saved && !editor.theirs;
  return (
    <section class="savebar" aria-label={saved ? Words.savedChanges : Words.unsavedChanges}>
      {editor.theirs ? <Conflict editor={editor} /> : saved ? <p class="saved" role="status"><Icon name="check" />{Words.saved}</p> : <UnsavedChanges editor={editor} />}
    </section>
  );
}

function UnsavedChanges({ editor }: { editor: Editor }) {
  const { agent, draft, error } = editor;
  const sound = findFaults(draft).length === 0;
  return (
    <>
      <div class="savebar-words">
        {error ? (
          <div role="alert">
            <strong class="bad-words">{error.errors.length === 0 ? error.detail : Words.notSavedCorrectThese}</strong>
            {error.errors.length > 0 && <ul>{error.errors.slice(0, 3).map((e) => <li key={e.field + e.code}>{faultText(e, draft)}</li>)}{error.errors.length > 3 && <li>{texts.andErrorsMore(error.errors.length - 3)}</li>}</ul>}
          </div>
        ) : <p role="status"><strong>{Words.unsavedChangesText}</strong> {fieldLabels(editor.changed).join(", ")}</p>}
      </div>
      <div class="actions">
        {sound && <Curl what={Words.saveChanges} request={{ method: "PUT", path: "/api/agents", params: { id: agent.id }, body: changeBody(agent, draft) }} />}
        <Button look="bare" onClick={editor.discard}>{Words.discard}</Button>
        <Button look="primary" onClick={editor.save}>{editor.saving ? Words.saving : Words.saveChanges}</Button>
      </div>
    </>
  );
}

function Conflict({ editor }: { editor: Editor }) {
  const { theirs, base, changed } = editor;
  if (!theirs) return null;
  const other = changedFields(newDraft(theirs), base);
  const both = changed.filter((f) => other.includes(f));
  return (
    <>
      <div class="savebar-words" role="alert">
        <p>{texts.someoneElseChanged(<Time at={theirs.updatedAt} />, fieldLabels(other).join(", ") || Words.nothingShownHere, fieldLabels(changed).join(", "))}</p>
        <p class="small">{texts.nothingIsLost(both.length > 0 ? texts.bothOfYouChanged(fieldLabels(both).join(", ")) : Words.yourChangesAndTheirs)}</p>
      </div>
      <div class="actions">
        <Button look="bare" onClick={editor.loadTheirs}>{Words.discardMineLoadTheirs}</Button>
        <Button look="primary" onClick={editor.keepMine}>{Words.applyMineOnTop}</Button>
      </div>
    </>
  );
}

/** Saves on Ctrl+S or Cmd+S. */
function useSaveKey(save: () => Promise<void>): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "s" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
      event.preventDefault();
      void save();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [save]);
}
