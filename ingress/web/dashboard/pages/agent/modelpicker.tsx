// The choice of a model from those that the service's providers offer.
import { useState } from "preact/hooks";
import { get } from "../../api";
import { useQuery } from "../../query";
import * as texts from "../../texts/agent";
import { Words } from "../../texts/agent";
import type { ModelList } from "../../types";
import { Select, TextField } from "../../ui/field";

const other = "/"; // no model has this name

/**
 * Loads the models that agents can use. Returns undefined if no worker lists models, and an empty
 * list while loading.
 */
export function useModels(mayEdit: boolean): ModelList | undefined {
  const query = useQuery<ModelList>(mayEdit ? "models" : null, (signal) => get("/api/agents/models", {}, signal));
  return query.data ?? (query.loading ? loading : undefined);
}

const loading: ModelList = { default: "", models: [] };

/**
 * A field that chooses a model from the list. "Another model" opens a text field for any name. If
 * there is no list, only the text field is shown.
 */
export function ModelPicker({ value, known, fault, onChange }: { value: string; known: ModelList | undefined; fault: string | undefined; onChange: (model: string) => void }) {
  const [typing, setTyping] = useState(false);
  const listed = known === loading || value === "" || known?.models.includes(value);
  const typed = typing || !listed;
  const name = (label: string) => (
    <TextField label={label} value={value} mono autocomplete="off" placeholder={Words.openaiGpt5Mini} onChange={(v) => onChange(v.trim())} fault={fault}
      hint={Words.providerModelOffline} />
  );
  if (!known) return name(Words.model);
  const options = [
    { value: "", label: known.default === "" ? Words.defaultOfService : texts.defaultOfTheService(known.default) },
    ...(known === loading && value !== "" ? [value] : known.models).map((m) => ({ value: m, label: m })),
    { value: other, label: Words.anotherModel },
  ];
  const choose = (model: string) => {
    setTyping(model === other);
    if (model !== other) onChange(model);
  };
  return (
    <>
      <Select label={Words.model} value={typed ? other : value} options={options} onChange={choose} fault={typed ? undefined : fault} />
      {typed && name(Words.nameOfModel)}
    </>
  );
}
