// The form that sets up an automation, and the resulting recipes.
import { useState } from "preact/hooks";
import { useBaseUrl } from "../../state";
import type { Agent } from "../../types";
import { LinkButton } from "../../ui/button";
import { Snippet } from "../../ui/copy";
import { Select, TextArea, TextField } from "../../ui/field";
import { Section } from "../../ui/parts";
import { Tabs } from "../../ui/tabs";
import { Allow } from "../hooks/allow";
import { clock, recipesOf, type Period, type Recipe, type Setup } from "./recipes";

const periods: { value: Period; label: string }[] = [
  { value: "hour", label: "Every hour" }, { value: "day", label: "Every day" }, 
  { value: "week", label: "Every Monday" }, { value: "month", label: "On the first of every month" },
];

const keeps = [
  { value: "0", label: "24 hours (default)" }, { value: "259200", label: "3 days" }, 
  { value: "604800", label: "7 days" }, { value: "2592000", label: "30 days (maximum)" },
];

const intro = "Any scheduler or service that can send a request can run an agent. Choose the agent and the time, then copy the lines for your scheduler.";

export function SetUp({ agents, reload }: { agents: Agent[]; reload: () => void }) {
  const baseUrl = useBaseUrl();
  const [chosen, setChosen] = useState(new URLSearchParams(location.search).get("agent") ?? "");
  const [name, setName] = useState("nightly");
  const [message, setMessage] = useState("Summarize the day.");
  const [period, setPeriod] = useState<Period>("day");
  const [at, setAt] = useState("07:00");
  const [keep, setKeep] = useState("0");

  const agent = agents.find((a) => a.id === chosen) ?? agents.find((a) => a.allowedCallers.includes("system")) ?? agents[0];

  if (!agent) {
    return (
      <Section title="Set up">
        <p class="quiet">An automation runs one of your agents. Create an agent first.</p>
        <LinkButton href="/dashboard/agents" look="primary">Create an agent</LinkButton>
      </Section>
    );
  }

  const setup: Setup = { baseUrl, agentId: agent.id, name: name.trim(), message, period, at, keep: Number(keep) };
  return (
    <Section title="Set up" intro={intro}>
      <div class="stack">
        <div class="set-up-form">
          <Select label="Agent" value={agent.id} options={agents.map((a) => ({ value: a.id, label: a.name }))} onChange={setChosen} />
          <TextField label="Automation" value={name} onChange={setName} maxLength={128} fault={faultOfName(name)}
            hint="The automation's name, sent as x-automation-id." />
          <Select label="When" value={period} options={periods} onChange={setPeriod} />
          <TextField label={period === "hour" ? "At (only minutes count)" : "At"} value={at} onChange={setAt} maxLength={5}
            fault={clock(at) ? undefined : "must be a time such as 07:30"} />
          <Select label="Keep results for" value={keep} options={keeps} onChange={setKeep} />
        </div>
        <TextArea label="Message" value={message} onChange={setMessage} rows={2} maxLength={600_000} fault={message === "" ? "is required" : undefined} />
        <Allow agent={agent} reload={reload} />
        <Recipes recipes={recipesOf(setup)} />
        <p class="hint">
          <code>PARLEY_API_KEY</code> is an API key of the organization. <a href="/dashboard/org">Create one under Organization</a>.
          Use a separate key for each automation, so that you can revoke it separately.
        </p>
        <Words />
      </div>
    </Section>
  );
}

function faultOfName(name: string): string | undefined {
  if (name.trim() === "") return "is required";
  return /\p{C}/u.test(name) ? "must contain only printable characters" : undefined;
}

function Recipes({ recipes }: { recipes: Recipe[] }) {
  const [shown, setShown] = useState("cron");
  return (
    <Tabs label="Run it with" tabs={recipes} selected={shown} onSelect={setShown}>{(recipe) => (
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

function Words() {
  return (
    <dl class="set-up-words">
      <dt><code>idempotencyKey</code></dt>
      <dd>A request repeated with the same key and message starts no second run: it gets the first run's
        result. The same key with another message is refused.</dd>
      <dt><code>x-automation-id</code></dt>
      <dd>The automation's name. It groups the runs here and under Runs.</dd>
      <dt><code>ttlOverride</code></dt>
      <dd>How many seconds a result is stored after the run finishes, if 24 hours are too short. At most 30 days.</dd>
    </dl>
  );
}
