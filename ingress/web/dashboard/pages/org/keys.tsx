// The list of API keys, with dialogs that create, rotate and revoke a key.
import { useState } from "preact/hooks";
import { del, post, type ApiError } from "../../api";
import { useList } from "../../query";
import { useBaseUrl, useMay } from "../../state";
import * as texts from "../../texts/org";
import { Words } from "../../texts/org";
import type { Key, KeyWithSecret } from "../../types";
import { Button } from "../../ui/button";
import { Snippet } from "../../ui/copy";
import { Curl } from "../../ui/curl";
import { Confirm } from "../../ui/confirm";
import { Dialog } from "../../ui/dialog";
import { Select, TextField, fieldFault } from "../../ui/field";
import { Empty, Loaded, More, Problem, Section, Time } from "../../ui/parts";
import { Table } from "../../ui/table";
import { toast } from "../../ui/toast";

export function Keys() {
  const admin = useMay("admin");
  const keys = useList<Key>("/api/keys");
  const [making, setMaking] = useState(false);
  const [made, setMade] = useState<KeyWithSecret>();
  const shown = () => {
    setMade(undefined);
    keys.reload(); // the key may have been used while it was shown
  };
  return (
    <Section title={Words.apiKeys} intro={Words.programsCallParley}
      actions={<><Curl what={Words.listTheKeys} request={{ method: "GET", path: "/api/keys" }} /><Button look="primary" icon="plus" onClick={() => setMaking(true)}>{Words.newKey}</Button></>}>
      <Loaded query={keys} room="6.125rem">{(list) => list.length === 0 ? (
        <Empty title={Words.noApiKeysYet}>
          {Words.withKeyServerScheduler}
        </Empty>
      ) : (
        <div class="stack">
          <Table caption={Words.apiKeys} rows={list} id={(k) => k.id} columns={[
            { head: Words.name, cell: (k) => k.name },
            { head: Words.key, tight: true, cell: (k) => <code>{k.prefix.slice(0, 8)}…{k.lastFour}</code> },
            { head: Words.actsAs, tight: true, cell: (k) => (k.scope === "organization" ? Words.theOrganizationLower : Words.you) },
            { head: Words.lastUsed, tight: true, cell: (k) => <Time at={k.lastUsedAt} /> },
            { head: Words.expires, tight: true, cell: (k) => <Time at={k.expiresAt} /> },
            { head: Words.actions, silent: true, tight: true, cell: (k) => <KeyActions of={k} onChange={keys.reload} onMade={setMade} /> },
          ]} />
          <More list={keys} />
        </div>
      )}</Loaded>
      {making && <NewKey admin={admin} onClose={() => setMaking(false)} onMade={(key) => { setMaking(false); setMade(key); keys.reload(); }} />}
      {made && <Shown of={made} onClose={shown} />}
    </Section>
  );
}

function KeyActions({ of: k, onChange, onMade }: { of: Key; onChange: () => void; onMade: (key: KeyWithSecret) => void }) {
  const rotate = () => post<KeyWithSecret>("/api/keys", {}, { id: k.id, action: "rotate" }).then((key) => {
    onMade(key);
    onChange();
  });
  const revoke = () => del("/api/keys", { id: k.id }).then(() => {
    toast(texts.nameIsRevoked(k.name));
    onChange();
  });
  return (
    <div class="actions">
      <Confirm look="bare" action={Words.rotate} label={texts.rotateName(k.name)} request={{ method: "POST", path: "/api/keys", params: { id: k.id, action: "rotate" }, body: {} }} question={texts.rotateNameQuestion(k.name)} onConfirm={rotate} detail={Words.newKeyReplaces} />
      <Confirm look="remove" action={Words.revoke} label={texts.revokeName(k.name)} request={{ method: "DELETE", path: "/api/keys", params: { id: k.id } }} question={texts.revokeNameQuestion(k.name)} onConfirm={revoke} detail={Words.programsThatUseKey} />
    </div>
  );
}

const lives = [{ value: "", label: Words.never }, { value: "7", label: Words.in7Days }, { value: "30", label: Words.in30Days }, { value: "90", label: Words.in90Days }, { value: "365", label: Words.inAYear }] as const;

function NewKey({ admin, onClose, onMade }: { admin: boolean; onClose: () => void; onMade: (key: KeyWithSecret) => void }) {
  const [name, setName] = useState("");
  const [scope, setScope] = useState<Key["scope"]>(admin ? "organization" : "user");
  const [days, setDays] = useState<(typeof lives)[number]["value"]>("");
  const [error, setError] = useState<ApiError>();
  const body = { name, scope, ...(days === "" ? {} : { expiresAt: new Date(Date.now() + Number(days) * 86_400_000).toISOString() }) };
  const make = () => post<KeyWithSecret>("/api/keys", body).then(onMade, (fault: ApiError) => setError(fault));
  const scopes = [
    ...(admin ? [{ value: "organization" as const, label: Words.theOrganizationOption }] : []),
    { value: "user" as const, label: Words.youInAllYourOrganizations },
  ];
  return (
    <Dialog title={Words.newApiKey} onClose={onClose} foot={
      <>
        <Curl what={Words.createAKey} request={{ method: "POST", path: "/api/keys", body }} />
        <Button onClick={onClose}>{Words.cancel}</Button>
        <Button look="primary" onClick={make}>{Words.createKey}</Button>
      </>
    }>
      <div class="stack">
        <TextField label={Words.name} hint={Words.itsPurposeForExample} value={name} onChange={setName} maxLength={120} fault={fieldFault(error, "name")} />
        <Select label={Words.itActsAs} value={scope} onChange={setScope} options={scopes} fault={fieldFault(error, "scope")}
          hint={scope === "user" ? Words.requestsWithItMustName : Words.keyHasAdminRights} />
        <Select label={Words.expires} value={days} onChange={setDays} options={lives} fault={fieldFault(error, "expiresAt")} />
        {error && error.errors.length === 0 && <Problem error={error} />}
      </div>
    </Dialog>
  );
}

function Shown({ of: k, onClose }: { of: KeyWithSecret; onClose: () => void }) {
  const baseUrl = useBaseUrl();
  return (
    <Dialog firm title={texts.copyApiKeyNow(k.name)} onClose={onClose} foot={<Button look="primary" onClick={onClose}>{Words.iHaveSavedIt}</Button>}>
      <div class="stack">
        <p>{Words.itIsNotShown}</p>
        <Snippet label={Words.theNewKey} text={k.key} />
        <p>{Words.tryIt}</p>
        <Snippet label={Words.commandThatListsAgents} text={`curl '${baseUrl}/api/agents' -H 'x-api-key: ${k.key}'${k.scope === "user" ? " -H \"x-organization-id: $ORGANIZATION_ID\"" : ""}`} />
      </div>
    </Dialog>
  );
}
