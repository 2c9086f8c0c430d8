// The page that creates a webhook.
import { useState } from "preact/hooks";
import { ApiError, del, post, withoutField } from "../api";
import { go } from "../router";
import { useMay } from "../state";
import * as texts from "../texts/hooks";
import { Words } from "../texts/hooks";
import type { Agent, Hook, HookSource, Key } from "../types";
import { Button, LinkButton } from "../ui/button";
import { Snippet } from "../ui/copy";
import { Curl } from "../ui/curl";
import { Dialog } from "../ui/dialog";
import { TextField, fieldFault, useFaults } from "../ui/field";
import { Empty, PageHeader, Problem, Section, Loading } from "../ui/parts";
import { Allow } from "./hooks/allow";
import { newSourceDraft, createBody, newKey, type HookDraft } from "./hooks/draft";
import { HookForm, SourcePicker } from "./hooks/form";
import { useKeys } from "./hooks/names";
import { Steps, Values } from "./hooks/setup";
import { formatCommand, sources } from "./hooks/sources";
import { useUnsaved } from "./hooks/unsaved";
import { useAgents } from "./runs/names";

const above = <a href="/dashboard/automations">{Words.automations}</a>;

export function NewHookPage() {
  const admin = useMay("admin");
  return (
    <>
      <PageHeader guide="dashboard#webhooks" title={Words.newWebhook} above={above}>{Words.eventInAnotherService}</PageHeader>
      {admin ? <New /> : <Empty title={Words.webhooksAreForAdmins}>{Words.webhooksUseOrganizationsApiKeys}</Empty>}
    </>
  );
}

function New() {
  const { agents, loaded: named, error: unnamed, reload } = useAgents();
  const { keys, loaded, error, reload: reloadKeys } = useKeys();
  if (!named || !loaded) return <Loading />;
  if (unnamed) return <Problem error={unnamed} retry={reload} />;
  if (error) return <Problem error={error} retry={reloadKeys} />;
  const first = agents.find((a) => a.allowedCallers.includes("system")) ?? agents[0];
  if (!first) {
    return <Empty title={Words.noAgentsYet} action={<LinkButton href="/dashboard/agents" look="primary">{Words.createAnAgent}</LinkButton>}>{Words.webhookRunsOneOfYourAgents}</Empty>;
  }
  return <Form agents={agents} keys={keys} first={first.id} reload={reload} />;
}

/** Creates the webhook. If the draft asks for a new API key, creates the key first. */
export async function makeHook(draft: HookDraft): Promise<Hook> {
  if (draft.keyId !== newKey) return post<Hook>("/api/hooks", createBody(draft));
  const key = await post<Key>("/api/keys", { name: texts.webhookName(draft.name.trim()).slice(0, 120).trim(), scope: "organization" });
  try {
    return await post<Hook>("/api/hooks", createBody(draft, key.id));
  } catch (cause) {
    // If the service refused the webhook, the new key is deleted, because no one has seen it. If
    // the response was lost or came from a gateway, the key is kept, because a webhook with this
    // key may exist.
    const refused = cause instanceof ApiError && cause.status >= 400 && cause.status < 500;
    if (refused) await del("/api/keys", { id: key.id }).catch(() => undefined);
    throw cause;
  }
}

function Form({ agents, keys, first, reload }: { agents: Agent[]; keys: Key[]; first: string; reload: () => void }) {
  const [draft, setDraft] = useState(() => newSourceDraft("github", first));
  const [error, setError] = useState<ApiError>();
  const [made, setMade] = useState<Hook>();

  const agent = agents.find((a) => a.id === draft.agentId);
  const source = sources[draft.source];
  const unsaved = useUnsaved(made === undefined && JSON.stringify(createBody(draft)) !== JSON.stringify(createBody(newSourceDraft(draft.source, draft.agentId))));
  useFaults(error);

  const set = (part: Partial<HookDraft>) => {
    setDraft((before) => ({ ...before, ...part }));
    setError((before) => Object.keys(part).reduce(withoutField, before));
  };
  const choose = (s: HookSource) => {
    setDraft((before) => newSourceDraft(s, first, before));
    setError(undefined);
  };

  const create = async () => {
    setError(undefined);
    try {
      setMade(await makeHook(draft));
    } catch (cause) {
      if (!(cause instanceof ApiError)) throw cause;
      setError(cause);
    }
  };

  const body = createBody(draft, draft.keyId === newKey ? "key_…" : draft.keyId);
  const secret = (
    <TextField label={source.secret} mono value={draft.secret} onChange={(secret) => set({ secret })} fault={fieldFault(error, "secret")}
      hint={source.theirs ? texts.generatesItPaste(source.title) : Words.ifEmptySecret} />
  );
  return (
    <div class="stack">
      <Section title={Words.sender}><SourcePicker source={draft.source} choose={choose} /></Section>
      <HookForm key={draft.source} draft={draft} set={set} error={error} agents={agents} keys={keys} fresh secret={!source.theirs && secret} />
      {agent && !agent.allowedCallers.includes("system") && <Allow agent={agent} reload={reload} />}
      {source.theirs && <Section title={Words.secret}>{secret}</Section>}
      {error && <Problem error={error} />}
      <div class="row">
        <Button look="primary" onClick={create}>{Words.createWebhook}</Button>
        <LinkButton href="/dashboard/automations">{Words.cancel}</LinkButton>
        <Curl what={Words.createTheWebhook} request={{ method: "POST", path: "/api/hooks", body }} />
      </div>
      {made && <Made hook={made} given={draft.secret} />}
      {unsaved}
    </div>
  );
}

/**
 * Shows what to enter at the sender. The property given is the secret that the person entered, or
 * empty.
 */
function Made({ hook, given }: { hook: Hook; given: string }) {
  const source = sources[hook.source];
  const incomplete = !given && source.theirs; // the sender has generated a secret, which is entered under Setup
  const leave = () => go(`/dashboard/automations/${hook.id}${incomplete ? "/setup" : ""}`, { replace: true });
  return (
    <Dialog firm title={texts.setUpAtSender(hook.name)} onClose={leave} foot={<Button look="primary" onClick={leave}>{Words.done}</Button>}>
      <div class="stack">
        <Values hook={hook} />
        {!given && !source.theirs && (
          <div class="piece"><p class="small">{texts.secretShownOnlyOnce(source.secret)}</p><Snippet label={Words.theSecret} text={hook.secret} /></div>
        )}
        <Steps hook={hook} />
        {incomplete
          ? <p class="note warn">{Words.deliveriesAreRefusedUntilYou}</p>
          : <div class="piece"><p class="small">{Words.tryIt}</p><Snippet label={Words.commandThatSendsDelivery} text={formatCommand(hook.source, hook, given || hook.secret)} /></div>}
      </div>
    </Dialog>
  );
}
