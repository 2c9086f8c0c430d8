// The first steps. A step is done once the service has seen it. The list disappears when all are done,
// or when the person hides it in this browser.
import { useState } from "preact/hooks";
import { useSession } from "../../state";
import type { Agent, Step, StepName } from "../../types";
import { Button } from "../../ui/button";
import { Icon } from "../../ui/icon";
import { Section } from "../../ui/parts";

interface Words {
  title: string;
  what: string;
  /** The page of the step. agent is the path of an agent with which people may chat, or null if there is none. */
  href: (agent: string | null) => string;
}

const words: Record<StepName, Words> = {
  chat: { title: "Chat with an agent", what: "Ask it something and see which tools it uses.", href: (agent) => agent ?? "/dashboard/templates" },
  document: { title: "Upload a document", what: "Agents search it and cite the page.", href: () => "/dashboard/knowledge" },
  key: { title: "Create an API key", what: "Your programs call agents with it.", href: () => "/dashboard/org" },
  schedule: { title: "Run an agent from a scheduler or webhook", what: "Copy a command for cron, or connect GitHub.", href: () => "/dashboard/automations" },
  embed: { title: "Put an agent on your website", what: "Paste one line into your page.", href: (agent) => (agent === null ? "/dashboard/agents" : agent + "/embed") },
};

const hiddenIn = (organization: string): string => "parley.steps-hidden." + organization;

function isHidden(organization: string): boolean {
  try {
    return localStorage.getItem(hiddenIn(organization)) !== null;
  } catch {
    return false; // the browser blocks storage
  }
}

function hide(organization: string): void {
  try {
    localStorage.setItem(hiddenIn(organization), "1");
  } catch {
    // the steps stay hidden until the page is left
  }
}

export function Steps({ steps, agents }: { steps: Step[]; agents: Agent[] }) {
  const organization = useSession()?.organization.id ?? "";
  const [hidden, setHidden] = useState(() => isHidden(organization));
  const done = steps.filter((s) => s.done).length;
  if (hidden || done === steps.length) return null;

  const first = agents.find((a) => a.allowedCallers.includes("user"));
  const agent = first ? "/dashboard/agents/" + encodeURIComponent(first.id) : null;
  const dismiss = () => {
    hide(organization);
    setHidden(true);
  };
  return (
    <Section title="First steps" actions={
      <>
        <span class="quiet small">{done} of {steps.length} done</span>
        <Button look="bare" label="Hide the first steps" onClick={dismiss}>Hide</Button>
      </>
    }>
      <ul class="first-steps">
        {steps.map(({ name, done: is }) => (
          <li key={name} class={is ? "done" : undefined}>
            <span class="step-mark">{is && <Icon name="check" />}</span>
            <div>
              <a href={words[name].href(agent)}>{words[name].title}</a>{is && <span class="visually-hidden"> (done)</span>}
              {!is && <p class="small quiet">{words[name].what}</p>}
            </div>
          </li>
        ))}
      </ul>
    </Section>
  );
}
