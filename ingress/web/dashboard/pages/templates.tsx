// The pages of templates: agents to chat with, and to create new agents from. With ?token=demo they
// are open to visitors.
import { useState } from "preact/hooks";
import { inDemo } from "../api";
import { Chat } from "../chat/chat";
import { useQuery } from "../query";
import { useMay } from "../state";
import type { Template } from "../types";
import { Button, LinkButton } from "../ui/button";
import { Curl } from "../ui/curl";
import { Empty, Loaded, PageHeader } from "../ui/parts";
import { CreateDialog } from "./templates/create";
import { DemoBar } from "./templates/demobar";
import { allTemplates } from "./templates/list";
import { toolsInWords } from "./templates/words";

export function TemplatesPage({ id }: Record<string, string>) {
  const templates = useQuery("templates", allTemplates);
  const one = id === undefined ? undefined : templates.data?.find((t) => t.id === id);
  if (id === undefined) return <List templates={templates} />;
  if (one) return <One template={one} />;
  return (
    <>
      <PageHeader title={templates.data ? "Template not found" : "Template"} above={<Back />} />
      <Loaded query={templates}>{() => <Empty title="This template doesn’t exist" action={<LinkButton href={place()} look="primary">Go to templates</LinkButton>}>The link may be incomplete.</Empty>}</Loaded>
    </>
  );
}

/**
 * Returns the URL of a template's page, or of the list. A demo visitor stays in the demo, even with
 * an account.
 */
const place = (id?: string): string => "/dashboard/templates" + (id === undefined ? "" : "/" + id) + (inDemo() ? "?token=demo" : "");

const Back = () => <a href={place()}>Templates</a>;

function List({ templates }: { templates: ReturnType<typeof useQuery<Template[]>> }) {
  const demo = inDemo();
  return (
    <>
      {demo && <DemoBar />}
      <PageHeader guide="quickstart" title="Templates" actions={<Curl what="List templates" request={{ method: "GET", path: "/api/agents/templates", credential: "none" }} />}>
        {demo ? "Agents that are ready to use. Choose one and ask it something." : "Agents that are ready to use. Try one here, or create your own agent from it."}
      </PageHeader>
      <Loaded query={templates}>{(list) => <ul class="templates">{list.map((t) => <Card key={t.id} template={t} />)}</ul>}</Loaded>
    </>
  );
}

function Card({ template }: { template: Template }) {
  const may = useMay("admin");
  const [creating, setCreating] = useState(false);
  return (
    <li class="template sheet">
      <h2><a href={place(template.id)}>{template.name}</a></h2>
      <p>{template.description}</p>
      <Tools template={template} />
      {template.suggestedMessages.length > 0 && <blockquote class="quiet small">{template.suggestedMessages[0]}</blockquote>}
      <div class="actions">
        <LinkButton href={place(template.id)} label={`Chat with ${template.name}`}>Chat</LinkButton>
        {may && <Button look="bare" label={`Create an agent from ${template.name}`} onClick={() => setCreating(true)}>Create an agent</Button>}
      </div>
      {creating && <CreateDialog template={template} onClose={() => setCreating(false)} />}
    </li>
  );
}

function Tools({ template }: { template: Template }) {
  return <ul class="template-tools" aria-label="Tools">{toolsInWords(template.tools).map((words) => <li key={words} class="tag">{words}</li>)}</ul>;
}

function One({ template }: { template: Template }) {
  const may = useMay("admin");
  const [creating, setCreating] = useState(false);
  return (
    <>
      {inDemo() && <DemoBar />}
      <PageHeader title={template.name} above={<Back />} actions={may && <Button onClick={() => setCreating(true)}>Create an agent from this template</Button>}>
        {template.description}
      </PageHeader>
      <Tools template={template} />
      <Chat target={{ templateId: template.id }} suggested={template.suggestedMessages} />
      {creating && <CreateDialog template={template} onClose={() => setCreating(false)} />}
    </>
  );
}
