// The invitations to the person's own email address.
import { chooseOrganization, post } from "../../api";
import { leave } from "../../panels";
import { useList } from "../../query";
import { useSession } from "../../state";
import * as texts from "../../texts/org";
import { Words } from "../../texts/org";
import { wordFor } from "../../texts/values";
import type { OwnInvitation } from "../../types";
import { Button } from "../../ui/button";
import { Confirm } from "../../ui/confirm";
import { Loaded, More, Section, Time } from "../../ui/parts";
import { Table } from "../../ui/table";
import { toast } from "../../ui/toast";

const path = "/api/auth/invitations";

export function Invitations() {
  const proven = useSession()?.emailProven === true;
  return (
    <Section title={Words.yourInvitations} intro={Words.invitationsToYourEmail}>
      {proven ? <List /> : <p class="quiet">{Words.toAcceptOrDecline}</p>}
    </Section>
  );
}

function List() {
  const invitations = useList<OwnInvitation>(path);
  const accept = async (i: OwnInvitation) => {
    await post(path, undefined, { id: i.id, action: "accept" });
    chooseOrganization(i.organization.id);
    leave("/dashboard");
  };
  const decline = async (i: OwnInvitation) => {
    await post(path, undefined, { id: i.id, action: "decline" });
    toast(texts.youDeclinedInvitationFrom(i.organization.name));
    invitations.reload();
  };
  return (
    <Loaded query={invitations} room="3rem">{(list) => list.length === 0 ? <p class="quiet">{Words.youHaveNoOpen}</p> : (
      <div class="stack">
        <Table caption={Words.yourInvitations} rows={list} id={(i) => i.id} columns={[
          { head: Words.organization, cell: (i) => i.organization.name },
          { head: Words.role, tight: true, cell: (i) => wordFor(texts.roles, i.role) },
          { head: Words.expires, tight: true, cell: (i) => <Time at={i.expiresAt} /> },
          { head: Words.actions, silent: true, tight: true, cell: (i) => (
            <div class="actions">
              <Button look="bare" label={texts.acceptInvitationFrom(i.organization.name)} onClick={() => accept(i)}>{Words.accept}</Button>
              <Confirm look="remove" action={Words.decline} label={texts.declineInvitationFrom(i.organization.name)} question={texts.declineTheInvitationFrom(i.organization.name)} detail={Words.itsLinkStopsWorking}
                request={{ method: "POST", path, params: { id: i.id, action: "decline" }, credential: "session" }} onConfirm={() => decline(i)} />
            </div>
          ) },
        ]} />
        <More list={invitations} />
      </div>
    )}</Loaded>
  );
}
