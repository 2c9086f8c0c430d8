// The choice of a model from those that the service's providers offer.
import { useState } from "preact/hooks";
import { get } from "../../api";
import { useQuery } from "../../query";
import type { ModelList } from "../../types";
import { Select, TextField } from "../../ui/field";

const other = " other"; // no model has this name

/** Loads the models that agents can use. Undefined if no worker lists them; while they are loading, the list has no models. */
export function useModels(mayEdit: boolean): ModelList | undefined {
  const query = useQuery<ModelList>(mayEdit ? "models" : null, (signal) => get("/api/agents/models", {}, signal));
  return query.data ?? (query.loading ? loading : undefined);
}

const loading: ModelList = { default: "", models: [] };

/** Chooses a model from the list. "Another model" opens a field for any name; without a list there is only the field. */
export function ModelPicker({ value, known, fault, onChange }: { value: string; known: ModelList | undefined; fault: string | undefined; onChange: (model: string) => void }) {
  const [typing, setTyping] = useState(false);
  const listed = known === loading || value === "" || known?.models.includes(value);
  const typed = typing || !listed;
  const name = (label: string) => (
    <TextField label={label} value={value} mono autocomplete="off" placeholder="openai/gpt-5-mini" onChange={(v) => onChange(v.trim())} fault={fault}
      hint="provider/model, offline, or offline/echo. Leave empty for the service's default." />
  );
  if (!known) return name("Model");
  const options = [
    { value: "", label: known.default === "" ? "Default of the service" : `Default of the service (${known.default})` },
    ...(known === loading && value !== "" ? [value] : known.models).map((m) => ({ value: m, label: m })),
    { value: other, label: "Another model …" },
  ];
  const choose = (model: string) => {
    setTyping(model === other);
    if (model !== other) onChange(model);
  };
  return (
    <>
      <Select label="Model" value={typed ? other : value} options={options} onChange={choose} fault={typed ? undefined : fault} />
      {typed && name("Name of the model")}
    </>
  );
}
