// The page of a webhook: its deliveries, its setup, and its settings.
import { useState } from "preact/hooks";
import { ApiError, del, get, put, withoutField } from "../api";
import { useLive } from "../live";
import { useQuery } from "../query";
import { go } from "../router";
import { useMay } from "../state";
import * as texts from "../texts/hooks";
import { Words } from "../texts/hooks";
import type { Delivery, Hook, List } from "../types";
import { Button, LinkButton } from "../ui/button";
import { Copy } from "../ui/copy";
import { Curl } from "../ui/curl";
import { Confirm } from "../ui/confirm";
import { useFaults } from "../ui/field";
import { Empty, Loaded, PageHeader, Problem, Status, Time, Loading } from "../ui/parts";
import { toast } from "../ui/toast";
import { Allow } from "./hooks/allow";
import { Deliveries } from "./hooks/deliveries";
import { changeBody, newDraft, type HookDraft } from "./hooks/draft";
import { HookForm } from "./hooks/form";
import { wasRejected } from "./hooks/list";
import { useKeys } from "./hooks/names";
import { useNewestPayload } from "./hooks/newest";
import { HookSetUp } from "./hooks/setup";
import { sources } from "./hooks/sources";
import { SendTest } from "./hooks/test";
import { useUnsaved } from "./hooks/unsaved";
import { useAgents } from "./runs/names";

const tabs = [["", Words.deliveries], ["setup", Words.setup], ["settings", Words.settings]] as const;
const above = <a href="/dashboard/automations">{Words.automations}</a>;

export function HookPage({ id = "", tab = "" }: Record<string, string>) {
  const admin = useMay("admin");
  const query = useQuery<Hook>(admin ? "hook " + id : null, (signal) => get("/api/hooks", { id }, signal));
  useLive("runs", query.reload); // the service reports deliveries as changes of runs
  if (!admin || (query.error?.status === 404 && !query.data)) return <Missing admin={admin} />;
  return (
    <>
      {!query.data && <PageHeader title={Words.webhook} above={above} />}
      <Loaded query={query}>{(hook) => <Shown hook={hook} tab={tab} query={query} />}</Loaded>
    </>
  );
}

function Missing({ admin }: { admin: boolean }) {
  return (
    <>
      <PageHeader title={admin ? Words.webhookNotFound : Words.webhook} above={above} />
      <Empty title={admin ? Words.thisWebhookDoesntExist : Words.webhooksAreForAdmins} action={<LinkButton href="/dashboard/automations" look="primary">{Words.goToAutomations}</LinkButton>}>
        {admin ? Words.itWasDeleted : Words.webhooksUseOrganizationsApi}
      </Empty>
    </>
  );
}

function Shown({ hook, tab, query }: { hook: Hook; tab: string; query: { set: (hook: Hook) => void; reload: () => void } }) {
  const current = tabs.some(([path]) => path === tab) ? tab : "";
  return (
    <>
      <PageHeader guide="dashboard#webhooks" title={hook.name} above={above} actions={<Actions hook={hook} set={query.set} />}>
        <span class="id"><code>{hook.id}</code><Copy text={hook.id} label={Words.copyWebhooksId} /><Curl what={Words.readThisWebhook} request={{ method: "GET", path: "/api/hooks", params: { id: hook.id } }} /></span>
        <span class="row"><span>{sources[hook.source].title}</span><Status of={hook.enabled ? "enabled" : "disabled"} /><span class="small">{texts.lastDeliveryTime(<Time at={hook.lastDeliveryAt} />)}</span></span>
      </PageHeader>
      <nav class="tabs" aria-label={Words.webhook}>
        {tabs.map(([path, words]) => (
          <a key={path} href={`/dashboard/automations/${hook.id}${path && "/" + path}`} aria-current={path === current ? "page" : undefined}>{words}</a>
        ))}
      </nav>
      {!hook.enabled && <p class="note warn">{Words.thisWebhookIsDisabled}</p>}
      {wasRejected(hook) && <Rejection hook={hook} below={current === "setup"} />}
      {current === "" && <Deliveries hook={hook} onChange={query.reload} />}
      {current === "setup" && <HookSetUp hook={hook} reload={query.reload} />}
      {current === "settings" && <HookSettings hook={hook} onSaved={query.set} />}
    </>
  );
}

/**
 * Shows when and why the newest delivery was rejected. If below is true, the section with the
 * secret is below.
 */
function Rejection({ hook, below }: { hook: Hook; below: boolean }) {
  const newest = useQuery(`rejection ${hook.id} ${hook.lastRejectedAt}`, (signal) => get<List<Delivery>>("/api/hooks/deliveries", { hookId: hook.id, status: "rejected", limit: 1 }, signal));
  return (
    <p class="note warn">
      {texts.newestDeliveryWasRejected(<Time at={hook.lastRejectedAt} />, newest.data?.data[0]?.error?.message)}{" "}
      {below ? Words.below : texts.underSetup(`/dashboard/automations/${hook.id}/setup`)}
    </p>
  );
}

function Actions({ hook, set }: { hook: Hook; set: (hook: Hook) => void }) {
  const params = { id: hook.id };
  const enable = async (enabled: boolean) => {
    set(await put<Hook>("/api/hooks", { enabled }, params));
    toast(enabled ? texts.nameIsEnabled(hook.name) : texts.nameIsDisabled(hook.name));
  };
  const remove = async () => {
    await del("/api/hooks", params);
    toast(texts.nameIsDeleted(hook.name));
    go("/dashboard/automations", { replace: true });
  };
  return (
    <>
      <SendTest hook={hook} />
      {hook.enabled
        ? <Confirm look="bare" action={Words.disable} request={{ method: "PUT", path: "/api/hooks", params, body: { enabled: false } }} question={texts.disableName(hook.name)} detail={Words.deliveriesAreRefused} onConfirm={() => enable(false)} />
        : <><Button look="primary" onClick={() => enable(true)}>{Words.enable}</Button><Curl what={texts.enableName(hook.name)} request={{ method: "PUT", path: "/api/hooks", params, body: { enabled: true } }} /></>}
      <Confirm look="remove" icon="trash" action={Words.deleteIt} request={{ method: "DELETE", path: "/api/hooks", params }} question={texts.deleteName(hook.name)} detail={Words.itsUrlAndItsLog} onConfirm={remove} />
    </>
  );
}

function HookSettings({ hook, onSaved }: { hook: Hook; onSaved: (hook: Hook) => void }) {
  const { agents, loaded: named, error: unnamed, reload } = useAgents();
  const { keys, loaded, error: unloaded, reload: reloadKeys } = useKeys();
  const sample = useNewestPayload(hook.id);
  const [draft, setDraft] = useState(() => newDraft(hook));
  const [error, setError] = useState<ApiError>();
  const body = changeBody(draft);
  const unsaved = useUnsaved(JSON.stringify(body) !== JSON.stringify(changeBody(newDraft(hook))));

  useFaults(error);

  if (!named || !loaded || !sample.loaded) return <Loading />;
  if (unnamed) return <Problem error={unnamed} retry={reload} />;
  if (unloaded) return <Problem error={unloaded} retry={reloadKeys} />;

  const set = (part: Partial<HookDraft>) => {
    setDraft((before) => ({ ...before, ...part }));
    setError((before) => Object.keys(part).reduce(withoutField, before));
  };
  const agent = agents.find((a) => a.id === draft.agentId);

  const save = async () => {
    setError(undefined);
    try {
      const next = await put<Hook>("/api/hooks", body, { id: hook.id });
      onSaved(next); // called before setDraft, because the draft is compared with the saved webhook
      setDraft(newDraft(next));
      toast(Words.saved);
    } catch (cause) {
      if (!(cause instanceof ApiError)) throw cause;
      setError(cause);
    }
  };
  return (
    <div class="stack">
      <HookForm draft={draft} set={set} error={error} agents={agents} keys={keys} sample={sample.typed} />
      {agent && !agent.allowedCallers.includes("system") && <Allow agent={agent} reload={reload} />}
      {error && <Problem error={error} />}
      <div class="row">
        <Button look="primary" onClick={save}>{Words.save}</Button>
        <Curl what={Words.saveTheWebhook} request={{ method: "PUT", path: "/api/hooks", params: { id: hook.id }, body }} />
      </div>
      {unsaved}
    </div>
  );
}
