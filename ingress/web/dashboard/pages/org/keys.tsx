// API keys: created, shown once, rotated, revoked.
import { useState } from "preact/hooks";
import { del, post, type ApiError } from "../../api";
import { useList } from "../../query";
import { useBaseUrl, useMay } from "../../state";
import type { Key } from "../../types";
import { Button } from "../../ui/button";
import { Snippet } from "../../ui/copy";
import { Curl } from "../../ui/curl";
import { Confirm } from "../../ui/confirm";
import { Dialog } from "../../ui/dialog";
import { Select, TextField, faultOf } from "../../ui/field";
import { Empty, Loaded, More, Problem, Section, Time } from "../../ui/parts";
import { Table } from "../../ui/table";
import { toast } from "../../ui/toast";

export function Keys() {
  const admin = useMay("admin");
  const keys = useList<Key>("/api/keys");
  const [making, setMaking] = useState(false);
  const [made, setMade] = useState<Key>();
  return (
    <Section title="API keys" intro="Programs call Parley with an API key. A key is shown once, when it is created."
      actions={<Button look="primary" icon="plus" onClick={() => setMaking(true)}>New key</Button>}>
      <Loaded query={keys} room="6.125rem">{(list) => list.length === 0 ? (
        <Empty title="No API keys yet" action={<Button onClick={() => setMaking(true)}>Create a key</Button>}>
          With a key, a server, a scheduler or an SDK can chat with agents and run them.
        </Empty>
      ) : (
        <div class="stack">
          <Table caption="API keys" rows={list} id={(k) => k.id} columns={[
            { head: "Name", cell: (k) => k.name },
            { head: "Key", tight: true, cell: (k) => <code>{k.prefix.slice(0, 8)}…{k.lastFour}</code> },
            { head: "Acts as", tight: true, cell: (k) => (k.scope === "organization" ? "the organization" : "you") },
            { head: "Last used", tight: true, cell: (k) => <Time at={k.lastUsedAt} /> },
            { head: "Expires", tight: true, cell: (k) => <Time at={k.expiresAt} /> },
            { head: "Actions", silent: true, tight: true, cell: (k) => <KeyActions of={k} onChange={keys.reload} onMade={setMade} /> },
          ]} />
          <More list={keys} />
        </div>
      )}</Loaded>
      {making && <NewKey admin={admin} onClose={() => setMaking(false)} onMade={(key) => { setMaking(false); setMade(key); keys.reload(); }} />}
      {made?.key && <Shown of={made} secret={made.key} onClose={() => setMade(undefined)} />}
    </Section>
  );
}

function KeyActions({ of: k, onChange, onMade }: { of: Key; onChange: () => void; onMade: (key: Key) => void }) {
  const rotate = () => post<Key>("/api/keys", {}, { id: k.id, action: "rotate" }).then((key) => {
    onMade(key);
    onChange();
  });
  const revoke = () => del("/api/keys", { id: k.id }).then(() => {
    toast(`${k.name} is revoked.`);
    onChange();
  });
  return (
    <div class="actions">
      <Confirm look="bare" action="Rotate" label={`Rotate ${k.name}`} request={{ method: "POST", path: "/api/keys", params: { id: k.id, action: "rotate" }, body: {} }} question={`Rotate ${k.name}?`} onConfirm={rotate} detail="A new key replaces it. The old key stays valid for a day." />
      <Confirm look="remove" action="Revoke" label={`Revoke ${k.name}`} request={{ method: "DELETE", path: "/api/keys", params: { id: k.id } }} question={`Revoke ${k.name}?`} onConfirm={revoke} detail="Programs that use the key are refused within five seconds." />
    </div>
  );
}

const lives = [{ value: "", label: "Never" }, { value: "7", label: "In 7 days" }, { value: "30", label: "In 30 days" }, { value: "90", label: "In 90 days" }, { value: "365", label: "In a year" }] as const;

function NewKey({ admin, onClose, onMade }: { admin: boolean; onClose: () => void; onMade: (key: Key) => void }) {
  const [name, setName] = useState("");
  const [scope, setScope] = useState<Key["scope"]>(admin ? "organization" : "user");
  const [days, setDays] = useState<(typeof lives)[number]["value"]>("");
  const [error, setError] = useState<ApiError>();
  const body = { name, scope, ...(days === "" ? {} : { expiresAt: new Date(Date.now() + Number(days) * 86_400_000).toISOString() }) };
  const make = () => post<Key>("/api/keys", body).then(onMade, (fault: ApiError) => setError(fault));
  const scopes = [
    ...(admin ? [{ value: "organization" as const, label: "The organization (with admin rights)" }] : []),
    { value: "user" as const, label: "You, in any of your organizations" },
  ];
  return (
    <Dialog title="New API key" onClose={onClose} foot={
      <>
        <Curl what="Create a key" request={{ method: "POST", path: "/api/keys", body }} />
        <Button onClick={onClose}>Cancel</Button>
        <Button look="primary" onClick={make}>Create key</Button>
      </>
    }>
      <div class="stack">
        <TextField label="Name" hint="Its purpose, for example nightly reports." value={name} onChange={setName} maxLength={120} fault={faultOf(error, "name")} />
        <Select label="It acts as" value={scope} onChange={setScope} options={scopes} fault={faultOf(error, "scope")}
          hint={scope === "user" ? "Requests with it must name an organization in the header x-organization-id." : undefined} />
        <Select label="Expires" value={days} onChange={setDays} options={lives} fault={faultOf(error, "expiresAt")} />
        {error && error.errors.length === 0 && <Problem error={error} />}
      </div>
    </Dialog>
  );
}

function Shown({ of: k, secret, onClose }: { of: Key; secret: string; onClose: () => void }) {
  const baseUrl = useBaseUrl();
  return (
    <Dialog firm title={`Copy the API key ${k.name} now`} onClose={onClose} foot={<Button look="primary" onClick={onClose}>I have saved it</Button>}>
      <div class="stack">
        <p>It is not shown again, because only its hash is stored.</p>
        <Snippet label="the new key" text={secret} />
        <p>Try it:</p>
        <Snippet label="a command that lists the agents" text={`curl '${baseUrl}/api/agents' -H 'x-api-key: ${secret}'${k.scope === "user" ? " -H \"x-organization-id: $ORGANIZATION_ID\"" : ""}`} />
      </div>
    </Dialog>
  );
}
