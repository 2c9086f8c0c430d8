// The members of the organization, and the open invitations.
import { useState } from "preact/hooks";
import { chooseOrganization, del, post, type ApiError } from "../../api";
import { leave } from "../../panels";
import { useList } from "../../query";
import { useMay, useSession } from "../../state";
import * as texts from "../../texts/org";
import { Words } from "../../texts/org";
import { wordFor } from "../../texts/values";
import type { Invitation, Member, ResetLink, Role } from "../../types";
import { Button } from "../../ui/button";
import { Snippet } from "../../ui/copy";
import { Curl } from "../../ui/curl";
import { Confirm } from "../../ui/confirm";
import { Dialog } from "../../ui/dialog";
import { Select, TextField, fieldFault } from "../../ui/field";
import { Loaded, More, Problem, Section, Time, exactTime } from "../../ui/parts";
import { Table } from "../../ui/table";
import { toast } from "../../ui/toast";

const roles: { value: Role; label: string }[] = [
  { value: "member", label: Words.memberChatViewAgents },
  { value: "admin", label: Words.adminAlsoEditAgents },
  { value: "owner", label: Words.ownerAlsoManageMembers },
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
  const alone = owner && !members.hasMore && members.data?.filter((m) => m.role === "owner" && m.status === "active").length === 1;
  const [adding, setAdding] = useState(false);
  const [link, setLink] = useState<Link>();
  const added = (m: Invitation | Member) => {
    setAdding(false);
    members.reload();
    if ("url" in m) setLink({ title: texts.invitationForEmail(m.email), text: Words.sendThisLink, url: m.url, until: m.expiresAt });
    else toast(texts.emailIsNowPart(m.email, wordFor(texts.someRole, m.role)));
  };
  return (
    <Section title={Words.members} intro={Words.allMembersSeeAgents}
      actions={<><Curl what={Words.listTheMembers} request={{ method: "GET", path: "/api/organizations/members" }} />{owner && <Button onClick={() => setAdding(true)} icon="plus">{Words.inviteAMember}</Button>}</>}>
      <Loaded query={members} room="8.5rem">{(list) => (
        <div class="stack tight">
          <Table caption={Words.members} rows={list} id={(m) => m.id} columns={[
            { head: Words.person, cell: (m) => <span class="person"><span>{m.name ?? m.email}</span>{m.name !== null && <span class="small quiet">{m.email}</span>}</span> },
            { head: Words.role, tight: true, cell: (m) => wordFor(texts.roles, m.role) },
            { head: Words.since, tight: true, cell: (m) => (m.status === "invited" ? <span class="tag">{Words.invited}</span> : <Time at={m.createdAt} />) },
            { head: Words.actions, silent: true, tight: true, cell: (m) => <MemberActions of={m} onChange={members.reload} onLink={setLink} stays={alone} /> },
          ]} />
          {alone && <p class="hint">{Words.onlyOwnerCannotLeave}</p>}
          <More list={members} />
        </div>
      )}</Loaded>
      {adding && <MemberDialog onClose={() => setAdding(false)} onDone={added} />}
      {link && (
        <Dialog firm title={link.title} onClose={() => setLink(undefined)} foot={<Button look="primary" onClick={() => setLink(undefined)}>{Words.done}</Button>}>
          <div class="stack">
            <p>{texts.linkIsShownOnce(link.text, texts.andIsValidUntil(exactTime(link.until)))}</p>
            <Snippet label={Words.theLink} text={link.url} />
          </div>
        </Dialog>
      )}
    </Section>
  );
}

/** The actions for a member. If stays is true, the signed-in person may not leave. */
function MemberActions({ of: m, onChange, onLink, stays }: { of: Member; onChange: () => void; onLink: (link: Link) => void; stays: boolean }) {
  const me = useSession()?.caller.userId === m.id;
  const owner = useMay("owner");
  const admin = useMay("admin");
  const remove = () => del("/api/organizations/members", { id: m.id }).then(() => {
    if (me) {
      chooseOrganization(null);
      leave("/dashboard");
      return;
    }
    toast(texts.emailWasRemoved(m.email));
    onChange();
  });
  const [changing, setChanging] = useState(false);
  const reset = () => post<ResetLink>("/api/organizations/members", undefined, { id: m.id, action: "reset" })
    .then((made) => onLink({ title: texts.newPasswordForEmail(m.email), text: Words.sendThisLinkToThem, url: made.url, until: made.expiresAt }));
  const remover = me ? Words.leave : m.status === "invited" ? Words.withdraw : Words.remove;
  return (
    <div class="actions">
      {owner && !me && m.status === "active" && <Button look="bare" label={texts.changeRoleOf(m.email)} onClick={() => setChanging(true)}>{Words.changeRole}</Button>}
      {changing && <MemberDialog of={m} onClose={() => setChanging(false)} onDone={() => { setChanging(false); onChange(); }} />}
      {admin && !me && m.status === "active" && <Confirm look="bare" action={Words.resetPassword} label={texts.resetPasswordOf(m.email)} question={texts.resetThePasswordOf(m.email)} detail={Words.youGetLink}
        request={{ method: "POST", path: "/api/organizations/members", params: { id: m.id, action: "reset" } }} onConfirm={reset} />}
      {(owner || me) && <Confirm look="remove" action={remover} disabled={me && stays} label={`${remover}: ${m.email}`} question={me ? Words.leaveTheOrganization : m.status === "invited" ? texts.withdrawInvitationFor(m.email) : texts.removeEmail(m.email)} detail={me ? Words.youLoseAccessImmediately : m.status === "invited" ? Words.invitationLinkStopsWorking : Words.theyLoseAccessWithin}
        request={{ method: "DELETE", path: "/api/organizations/members", params: { id: m.id } }} onConfirm={remove} />}
    </div>
  );
}

/** Invites a person or changes a member's role. The API has one request for both. */
function MemberDialog({ of: m, onClose, onDone }: { of?: Member; onClose: () => void; onDone: (m: Invitation | Member) => void }) {
  const [email, setEmail] = useState(m?.email ?? "");
  const [role, setRole] = useState<Role>(m?.role ?? "member");
  const [error, setError] = useState<ApiError>();
  const add = () => post<Invitation | Member>("/api/organizations/members", { email: email.trim(), role }).then(onDone, (fault: ApiError) => setError(fault));
  return (
    <Dialog title={m ? texts.changeRoleOf(m.email) : Words.inviteAMember} onClose={onClose} foot={
      <>
        <Curl what={m ? Words.changeARole : Words.inviteAMember} request={{ method: "POST", path: "/api/organizations/members", body: { email: email.trim(), role } }} />
        <Button onClick={onClose}>{Words.cancel}</Button>
        <Button look="primary" onClick={add}>{m ? Words.changeRole : Words.invite}</Button>
      </>
    }>
      <div class="stack">
        {!m && <TextField label={Words.emailAddress} type="email" value={email} onChange={setEmail} hint={Words.youGetLinkToSend} fault={fieldFault(error, "email")} />}
        <Select label={Words.role} value={role} onChange={setRole} options={roles} fault={fieldFault(error, "role")} />
        {error && error.errors.length === 0 && <Problem error={error} />}
      </div>
    </Dialog>
  );
}
