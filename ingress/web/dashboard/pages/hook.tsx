// The page of a webhook: its deliveries, its setup, and its settings.
import { useState } from "preact/hooks";
import { ApiError, del, get, put } from "../api";
import { useLive } from "../live";
import { useQuery } from "../query";
import { go } from "../router";
import { useMay } from "../state";
import type { Hook } from "../types";
import { Button, LinkButton } from "../ui/button";
import { Copy } from "../ui/copy";
import { Curl } from "../ui/curl";
import { Confirm } from "../ui/confirm";
import { Empty, Loaded, PageHeader, Problem, Status, Time, Waiting } from "../ui/parts";
import { toast } from "../ui/toast";
import { Allow } from "./hooks/allow";
import { Deliveries } from "./hooks/deliveries";
import { changeOf, draftOf, type HookDraft } from "./hooks/draft";
import { HookForm } from "./hooks/form";
import { unsigned } from "./hooks/list";
import { useKeys } from "./hooks/names";
import { useNewestPayload } from "./hooks/newest";
import { HookSetUp } from "./hooks/setup";
import { sources } from "./hooks/sources";
import { SendTest } from "./hooks/test";
import { useUnsaved } from "./hooks/unsaved";
import { useAgents } from "./runs/names";

const tabs = [["", "Deliveries"], ["setup", "Setup"], ["settings", "Settings"]] as const;
const above = <a href="/dashboard/automations">Automations</a>;

export function HookPage({ id = "", tab = "" }: Record<string, string>) {
  const admin = useMay("admin");
  const query = useQuery<Hook>(admin ? "hook " + id : null, (signal) => get("/api/hooks", { id }, signal));
  useLive("runs", query.reload); // deliveries are reported as changes of runs
  if (!admin || (query.error?.status === 404 && !query.data)) return <Missing admin={admin} />;
  return (
    <>
      {!query.data && <PageHeader title="Webhook" above={above} />}
      <Loaded query={query}>{(hook) => <Shown hook={hook} tab={tab} query={query} />}</Loaded>
    </>
  );
}

function Missing({ admin }: { admin: boolean }) {
  return (
    <>
      <PageHeader title={admin ? "Webhook not found" : "Webhook"} above={above} />
      <Empty title={admin ? "This webhook doesn't exist here" : "Webhooks are for admins"} action={<LinkButton href="/dashboard/automations" look="primary">Go to automations</LinkButton>}>
        {admin ? "It was deleted, or it belongs to another of your organizations." : "Webhooks use the organization’s API keys. Ask an admin to show or change this webhook."}
      </Empty>
    </>
  );
}

function Shown({ hook, tab, query }: { hook: Hook; tab: string; query: { set: (hook: Hook) => void; reload: () => void } }) {
  const current = tabs.some(([path]) => path === tab) ? tab : "";
  return (
    <>
      <PageHeader guide="webhooks" title={hook.name} above={above} actions={<Actions hook={hook} set={query.set} />}>
        <span class="id"><code>{hook.id}</code><Copy text={hook.id} label="Copy the webhook’s id" /><Curl what="Read this webhook" request={{ method: "GET", path: "/api/hooks", params: { id: hook.id } }} /></span>
        <span class="row"><span>{sources[hook.source].title}</span><Status of={hook.enabled ? "enabled" : "disabled"} /><span class="small">Last delivery: <Time at={hook.lastDeliveryAt} /></span></span>
      </PageHeader>
      <nav class="tabs" aria-label="Webhook">
        {tabs.map(([path, words]) => (
          <a key={path} href={`/dashboard/automations/${hook.id}${path && "/" + path}`} aria-current={path === current ? "page" : undefined}>{words}</a>
        ))}
      </nav>
      {!hook.enabled && <p class="note warn">This webhook is disabled. Deliveries to its URL are refused until you enable it.</p>}
      {unsigned(hook) && hook.lastRejectedAt && (
        <p class="note warn">
          <strong>The newest delivery was rejected</strong> (<Time at={hook.lastRejectedAt} />): its signature or token doesn't match the webhook's secret. Enter the same secret at the sender, or set a new one{" "}
          {current === "setup" ? "below." : <>under <a href={`/dashboard/automations/${hook.id}/setup`}>Setup</a>.</>}
        </p>
      )}
      {current === "" && <Deliveries hook={hook} onChange={query.reload} />}
      {current === "setup" && <HookSetUp hook={hook} reload={query.reload} />}
      {current === "settings" && <HookSettings hook={hook} onSaved={query.set} />}
    </>
  );
}

function Actions({ hook, set }: { hook: Hook; set: (hook: Hook) => void }) {
  const params = { id: hook.id };
  const enable = async (enabled: boolean) => {
    set(await put<Hook>("/api/hooks", { enabled }, params));
    toast(enabled ? `${hook.name} is enabled.` : `${hook.name} is disabled.`);
  };
  const remove = async () => {
    await del("/api/hooks", params);
    toast(`${hook.name} is deleted.`);
    go("/dashboard/automations", { replace: true });
  };
  return (
    <>
      <SendTest hook={hook} />
      {hook.enabled
        ? <Confirm look="bare" action="Disable" request={{ method: "PUT", path: "/api/hooks", params, body: { enabled: false } }} question={`Disable ${hook.name}?`} detail="Deliveries are refused until you enable it again. Most senders stop retrying after a while." onConfirm={() => enable(false)} />
        : <><Button look="primary" onClick={() => enable(true)}>Enable</Button><Curl what={`Enable ${hook.name}`} request={{ method: "PUT", path: "/api/hooks", params, body: { enabled: true } }} /></>}
      <Confirm look="remove" icon="trash" action="Delete" request={{ method: "DELETE", path: "/api/hooks", params }} question={`Delete ${hook.name}?`} detail="Its URL and its log are deleted permanently. Runs that the webhook started are kept." onConfirm={remove} />
    </>
  );
}

function HookSettings({ hook, onSaved }: { hook: Hook; onSaved: (hook: Hook) => void }) {
  const { agents, loaded: named, error: unnamed, reload } = useAgents();
  const { keys, loaded, error: unloaded, reload: reloadKeys } = useKeys();
  const sample = useNewestPayload(hook.id);
  const [draft, setDraft] = useState(() => draftOf(hook));
  const [error, setError] = useState<ApiError>();
  const body = changeOf(draft);
  const unsaved = useUnsaved(JSON.stringify(body) !== JSON.stringify(changeOf(draftOf(hook))));

  if (!named || !loaded || !sample.loaded) return <Waiting />;
  if (unnamed) return <Problem error={unnamed} retry={reload} />;
  if (unloaded) return <Problem error={unloaded} retry={reloadKeys} />;

  const set = (part: Partial<HookDraft>) => setDraft((before) => ({ ...before, ...part }));
  const agent = agents.find((a) => a.id === draft.agentId);

  const save = async () => {
    setError(undefined);
    try {
      const next = await put<Hook>("/api/hooks", body, { id: hook.id });
      onSaved(next); // first, because the saved draft is compared with it
      setDraft(draftOf(next));
      toast("Saved.");
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
        <Button look="primary" onClick={save}>Save</Button>
        <Curl what="Save the webhook" request={{ method: "PUT", path: "/api/hooks", params: { id: hook.id }, body }} />
      </div>
      {unsaved}
    </div>
  );
}
