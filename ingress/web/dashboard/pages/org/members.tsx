// The members of the organization, and the open invitations.
import { useState } from "preact/hooks";
import { chooseOrganization, del, post, type ApiError } from "../../api";
import { useList } from "../../query";
import { useMay, useSession } from "../../state";
import type { Member, Role } from "../../types";
import { Button } from "../../ui/button";
import { Snippet } from "../../ui/copy";
import { Curl } from "../../ui/curl";
import { Confirm } from "../../ui/confirm";
import { Dialog } from "../../ui/dialog";
import { Select, TextField, faultOf } from "../../ui/field";
import { Loaded, More, Problem, Section, Time, exactTime } from "../../ui/parts";
import { Table } from "../../ui/table";
import { toast } from "../../ui/toast";

const roles: { value: Role; label: string }[] = [
  { value: "member", label: "Member: chat, view agents and documents, own sessions" },
  { value: "admin", label: "Admin: also edit agents, documents and API keys, all runs" },
  { value: "owner", label: "Owner: also manage members and the organization" },
];

interface Link {
  title: string;
  text: string;
  url: string;
  until: string;
}

export function Members() {
  const owner = useMay("owner");
  const members = useList<Member>("/api/organizations/members");
  const [adding, setAdding] = useState(false);
  const [link, setLink] = useState<Link>();
  const added = (m: Member) => {
    setAdding(false);
    members.reload();
    if (m.url) setLink({ title: `Invitation for ${m.email}`, text: "Send this link to them: Parley sends no email. Anyone with the link can accept the invitation.", url: m.url, until: m.expiresAt ?? "" });
    else toast(`${m.email} is now ${m.role === "member" ? "a member" : `an ${m.role}`}.`);
  };
  return (
    <Section title="Members" intro="All members see the agents and documents. Their roles grant further rights."
      actions={owner && <Button onClick={() => setAdding(true)} icon="plus">Invite a member</Button>}>
      <Loaded query={members} room="7rem">{(list) => (
        <div class="stack">
          <Table caption="Members" rows={list} id={(m) => m.id} columns={[
            { head: "Person", cell: (m) => <span class="person"><span>{m.name ?? m.email}</span>{m.name !== null && <span class="small quiet">{m.email}</span>}</span> },
            { head: "Role", tight: true, cell: (m) => m.role },
            { head: "Since", tight: true, cell: (m) => (m.status === "invited" ? <span class="tag">invited</span> : <Time at={m.createdAt} />) },
            { head: "Actions", silent: true, tight: true, cell: (m) => <MemberActions of={m} onChange={members.reload} onLink={setLink} /> },
          ]} />
          <More list={members} />
        </div>
      )}</Loaded>
      {adding && <MemberDialog onClose={() => setAdding(false)} onDone={added} />}
      {link && (
        <Dialog firm title={link.title} onClose={() => setLink(undefined)} foot={<Button look="primary" onClick={() => setLink(undefined)}>Done</Button>}>
          <div class="stack">
            <p>{link.text} The link is shown once{link.until && `, and is valid until ${exactTime(link.until)}`}.</p>
            <Snippet label="the link" text={link.url} />
          </div>
        </Dialog>
      )}
    </Section>
  );
}

function MemberActions({ of: m, onChange, onLink }: { of: Member; onChange: () => void; onLink: (link: Link) => void }) {
  const me = useSession()?.caller.userId === m.id;
  const owner = useMay("owner");
  const admin = useMay("admin");
  const remove = () => del("/api/organizations/members", { id: m.id }).then(() => {
    if (me) {
      chooseOrganization(null);
      location.assign("/dashboard");
      return;
    }
    toast(`${m.email} was removed.`);
    onChange();
  });
  const [changing, setChanging] = useState(false);
  const reset = () => post<{ url: string; expiresAt: string }>("/api/organizations/members", undefined, { id: m.id, action: "reset" })
    .then((made) => onLink({ title: `New password for ${m.email}`, text: "Send this link to them. It lets them set a new password.", url: made.url, until: made.expiresAt }));
  const remover = me ? "Leave" : m.status === "invited" ? "Withdraw" : "Remove";
  return (
    <div class="actions">
      {owner && !me && m.status === "active" && <Button look="bare" label={`Change the role of ${m.email}`} onClick={() => setChanging(true)}>Change role</Button>}
      {changing && <MemberDialog of={m} onClose={() => setChanging(false)} onDone={() => { setChanging(false); onChange(); }} />}
      {admin && !me && m.status === "active" && <Confirm look="bare" action="Reset password" label={`Reset the password of ${m.email}`} question={`Reset the password of ${m.email}?`} detail="You get a link to send to them. Their old password works until they use the link."
        request={{ method: "POST", path: "/api/organizations/members", params: { id: m.id, action: "reset" } }} onConfirm={reset} />}
      {(owner || me) && <Confirm look="remove" action={remover} label={`${remover}: ${m.email}`} question={me ? "Leave the organization?" : m.status === "invited" ? `Withdraw the invitation for ${m.email}?` : `Remove ${m.email}?`} detail={me ? "You lose access immediately." : m.status === "invited" ? "The invitation link stops working." : "They lose access within five seconds."}
        request={{ method: "DELETE", path: "/api/organizations/members", params: { id: m.id } }} onConfirm={remove} />}
    </div>
  );
}

/** Invites a person, or changes a member's role. Both are the same request. */
function MemberDialog({ of: m, onClose, onDone }: { of?: Member; onClose: () => void; onDone: (m: Member) => void }) {
  const [email, setEmail] = useState(m?.email ?? "");
  const [role, setRole] = useState<Role>(m?.role ?? "member");
  const [error, setError] = useState<ApiError>();
  const add = () => post<Member>("/api/organizations/members", { email: email.trim(), role }).then(onDone, (fault: ApiError) => setError(fault));
  return (
    <Dialog title={m ? `Change the role of ${m.email}` : "Invite a member"} onClose={onClose} foot={
      <>
        <Curl what={m ? "Change a role" : "Invite a member"} request={{ method: "POST", path: "/api/organizations/members", body: { email: email.trim(), role } }} />
        <Button onClick={onClose}>Cancel</Button>
        <Button look="primary" onClick={add}>{m ? "Change role" : "Invite"}</Button>
      </>
    }>
      <div class="stack">
        {!m && <TextField label="Email address" type="email" value={email} onChange={setEmail} hint="You get a link to send. They become a member when they accept." fault={faultOf(error, "email")} />}
        <Select label="Role" value={role} onChange={setRole} options={roles} fault={faultOf(error, "role")} />
        {error && error.errors.length === 0 && <Problem error={error} />}
      </div>
    </Dialog>
  );
}
