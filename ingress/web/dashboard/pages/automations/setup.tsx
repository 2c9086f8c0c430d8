// The form that sets up an automation, and the resulting recipes.
import { useState } from "preact/hooks";
import { useBaseUrl } from "../../state";
import * as texts from "../../texts/automations";
import { Words } from "../../texts/automations";
import type { Agent } from "../../types";
import { LinkButton } from "../../ui/button";
import { Snippet } from "../../ui/copy";
import { Select, TextArea, TextField } from "../../ui/field";
import { Section } from "../../ui/parts";
import { Tabs } from "../../ui/tabs";
import { Allow } from "../hooks/allow";
import { clock, newRecipes, type Period, type Recipe, type Setup } from "./recipes";

const periods: { value: Period; label: string }[] = [
  { value: "hour", label: Words.everyHour }, { value: "day", label: Words.everyDay }, 
  { value: "week", label: Words.everyMonday }, { value: "month", label: Words.onFirstOfEveryMonth },
];

const keeps = [
  { value: "0", label: Words.hoursDefault24 }, { value: "259200", label: Words.days3 }, 
  { value: "604800", label: Words.days7 }, { value: "2592000", label: Words.daysMaximum30 },
];

const intro = Words.anySchedulerOrService;

export function SetUp({ agents, reload }: { agents: Agent[]; reload: () => void }) {
  const baseUrl = useBaseUrl();
  const [chosen, setChosen] = useState(new URLSearchParams(location.search).get("agent") ?? "");
  const [name, setName] = useState("nightly");
  const [message, setMessage] = useState<string>(Words.summarizeDay);
  const [period, setPeriod] = useState<Period>("day");
  const [at, setAt] = useState("07:00");
  const [keep, setKeep] = useState("0");

  const agent = agents.find((a) => a.id === chosen) ?? agents.find((a) => a.allowedCallers.includes("system")) ?? agents[0];

  if (!agent) {
    return (
      <Section title={Words.setUp}>
        <p class="quiet">{Words.automationRunsOneOfYourAgents}</p>
        <LinkButton href="/dashboard/agents" look="primary">{Words.createAnAgent}</LinkButton>
      </Section>
    );
  }

  const setup: Setup = { baseUrl, agentId: agent.id, name: name.trim(), message, period, at, keep: Number(keep) };
  return (
    <Section title={Words.setUp} intro={intro}>
      <div class="stack">
        <div class="set-up-form">
          <Select label={Words.agent} value={agent.id} options={agents.map((a) => ({ value: a.id, label: a.name }))} onChange={setChosen} />
          <TextField label={Words.automation} value={name} onChange={setName} maxLength={128} fault={checkName(name)}
            hint={Words.automationsNameSent} />
          <Select label={Words.when} value={period} options={periods} onChange={setPeriod} />
          <TextField label={period === "hour" ? Words.atOnlyMinutesCount : Words.at} value={at} onChange={setAt} maxLength={5}
            fault={clock(at) ? undefined : Words.mustBeTimeSuch} />
          <Select label={Words.keepResultsFor} value={keep} options={keeps} onChange={setKeep} />
        </div>
        <TextArea label={Words.message} value={message} onChange={setMessage} rows={2} maxLength={600_000} fault={message === "" ? Words.isRequired : undefined} />
        <Allow agent={agent} reload={reload} />
        <Recipes recipes={newRecipes(setup)} />
        <p class="hint">
          {texts.parleyApiKey()}
        </p>
        <Names />
      </div>
    </Section>
  );
}

function checkName(name: string): string | undefined {
  if (name.trim() === "") return Words.isRequired;
  return /\p{C}/u.test(name) ? Words.mustContainOnlyPrintable : undefined;
}

function Recipes({ recipes }: { recipes: Recipe[] }) {
  const [shown, setShown] = useState("cron");
  return (
    <Tabs label={Words.runItWith} tabs={recipes} selected={shown} onSelect={setShown}>{(recipe) => (
      <>
        <p class="quiet">{recipe.note}</p>
        {recipe.pieces.map((piece) => (
          <div class={recipe.id === "cron" ? "piece wraps" : "piece"} key={piece.where}>
            <p class="small">{piece.where}</p>
            <Snippet text={piece.text} label={`${recipe.title}: ${piece.where}`} />
          </div>
        ))}
      </>
    )}</Tabs>
  );
}

function Names() {
  return (
    <dl class="set-up-words">
      <dt><code>idempotencyKey</code></dt>
      <dd>{Words.requestRepeatedWithSame}</dd>
      <dt><code>x-automation-id</code></dt>
      <dd>{Words.automationsNameItGroups}</dd>
      <dt><code>ttlOverride</code></dt>
      <dd>{Words.howManySecondsResult}</dd>
    </dl>
  );
}
