// The first steps. The overview reports which steps are done. The list disappears when all steps
// are done, or when the person hides it in this browser.
import { useState } from "preact/hooks";
import { hide, isHidden } from "../../hidden";
import { useSession } from "../../state";
import * as texts from "../../texts/home";
import { Words } from "../../texts/home";
import type { Agent, Step } from "../../types";
import { Button } from "../../ui/button";
import { Icon } from "../../ui/icon";
import { Section } from "../../ui/parts";

interface Shown {
  title: string;
  what: string;
  /**
   * Returns the URL of the step's page. The argument agent is the path of an agent with which
   * people may chat, or null if there is none.
   */
  href: (agent: string | null) => string;
}

const words: Record<Step["name"], Shown> = {
  chat: { title: Words.chatWithAgent, what: Words.askItSomething, href: (agent) => agent ?? "/dashboard/templates" },
  document: { title: Words.uploadADocument, what: Words.agentsSearchItAndCite, href: () => "/dashboard/knowledge" },
  key: { title: Words.createApiKey, what: Words.yourProgramsCallAgents, href: () => "/dashboard/org" },
  schedule: { title: Words.runAgentFromScheduler, what: Words.copyCommandForCron, href: () => "/dashboard/automations" },
  embed: { title: Words.putAgentOnYourWebsite, what: Words.pasteOneLine, href: (agent) => (agent === null ? "/dashboard/agents" : agent + "/embed") },
};

export function Steps({ steps, agents }: { steps: Step[]; agents: Agent[] }) {
  const organization = useSession()?.organization.id ?? "";
  const [hidden, setHidden] = useState(() => isHidden("steps", organization));
  const done = steps.filter((s) => s.done).length;
  if (hidden || done === steps.length) return null;

  const first = agents.find((a) => a.allowedCallers.includes("user"));
  const agent = first ? "/dashboard/agents/" + encodeURIComponent(first.id) : null;
  const dismiss = () => {
    hide("steps", organization);
    setHidden(true);
  };
  return (
    <Section title={Words.firstSteps} actions={
      <>
        <span class="quiet small">{texts.doneOfStepsDone(done, steps.length)}</span>
        <Button look="bare" label={Words.hideFirstSteps} onClick={dismiss}>{Words.hide}</Button>
      </>
    }>
      <ul class="first-steps">
        {steps.map(({ name, done: is }) => (
          <li key={name} class={is ? "done" : undefined}>
            <span class="step-mark">{is && <Icon name="check" />}</span>
            <div>
              <a href={words[name].href(agent)}>{words[name].title}</a>{is && <span class="visually-hidden">{" "}{Words.done}</span>}
              {!is && <p class="small quiet">{words[name].what}</p>}
            </div>
          </li>
        ))}
      </ul>
    </Section>
  );
}
