// The pages of templates. People chat with templates, and create new agents from them. With
// ?token=demo, these pages are open to visitors.
import { useState } from "preact/hooks";
import { inDemo } from "../api";
import { Chat } from "../chat/chat";
import { useQuery } from "../query";
import { searchesDocuments } from "../samples";
import { useMay } from "../state";
import * as texts from "../texts/templates";
import { Words } from "../texts/templates";
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
      <PageHeader title={templates.data ? Words.templateNotFound : Words.template} above={<Back />} />
      <Loaded query={templates}>{() => <Empty title={Words.thisTemplateDoesntExist} action={<LinkButton href={templateHref()} look="primary">{Words.goToTemplates}</LinkButton>}>{Words.linkMayBeIncomplete}</Empty>}</Loaded>
    </>
  );
}

/**
 * Returns the URL of a template's page, or of the list. A demo visitor stays in the demo, even with
 * an account.
 */
const templateHref = (id?: string): string => "/dashboard/templates" + (id === undefined ? "" : "/" + id) + (inDemo() ? "?token=demo" : "");

const Back = () => <a href={templateHref()}>{Words.templates}</a>;

function List({ templates }: { templates: ReturnType<typeof useQuery<Template[]>> }) {
  const demo = inDemo();
  return (
    <>
      {demo && <DemoBar />}
      <PageHeader guide="dashboard#templates" title={Words.templates} actions={<Curl what={Words.listTemplates} request={{ method: "GET", path: "/api/agents/templates", credential: "none" }} />}>
        {demo ? Words.agentsThatAreReady : Words.agentsThatAreReadyToUse}
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
      <h2><a href={templateHref(template.id)}>{template.name}</a></h2>
      <p>{template.description}</p>
      <Tools template={template} />
      {template.suggestedMessages.length > 0 && <blockquote class="quiet small">{template.suggestedMessages[0]}</blockquote>}
      <div class="actions">
        <LinkButton href={templateHref(template.id)} label={texts.chatWithName(template.name)}>{Words.chat}</LinkButton>
        {may && <Button look="bare" label={texts.createAgentFrom(template.name)} onClick={() => setCreating(true)}>{Words.createAnAgent}</Button>}
      </div>
      {creating && <CreateDialog template={template} onClose={() => setCreating(false)} />}
    </li>
  );
}

function Tools({ template }: { template: Template }) {
  return <ul class="template-tools" aria-label={Words.tools}>{toolsInWords(template.tools).map((words) => <li key={words} class="tag">{words}</li>)}</ul>;
}

function One({ template }: { template: Template }) {
  const may = useMay("admin");
  const [creating, setCreating] = useState(false);
  return (
    <>
      {inDemo() && <DemoBar />}
      <PageHeader compact guide="dashboard#templates" title={template.name} above={<Back />} actions={may && <Button onClick={() => setCreating(true)}>{Words.createAgentFromThisTemplate}</Button>}>
        {template.description}
      </PageHeader>
      <Tools template={template} />
      <Chat target={{ templateId: template.id }} suggested={template.suggestedMessages} searches={searchesDocuments(template.tools)} />
      {creating && <CreateDialog template={template} onClose={() => setCreating(false)} />}
    </>
  );
}
