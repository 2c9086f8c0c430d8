// The invitations to the person's own email address.
import { chooseOrganization, post } from "../../api";
import { useList } from "../../query";
import { useSession } from "../../state";
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
    <Section title="Your invitations" intro="Invitations to your email address from other organizations.">
      {proven ? <List /> : <p class="quiet">To accept or decline an invitation, open the link that you received. Invitations are listed here after your email address is verified, for example by signing in with your organization's account.</p>}
    </Section>
  );
}

function List() {
  const invitations = useList<OwnInvitation>(path);
  const accept = async (i: OwnInvitation) => {
    await post(path, undefined, { id: i.id, action: "accept" });
    chooseOrganization(i.organization.id);
    location.assign("/dashboard");
  };
  const decline = async (i: OwnInvitation) => {
    await post(path, undefined, { id: i.id, action: "decline" });
    toast(`You declined the invitation from ${i.organization.name}.`);
    invitations.reload();
  };
  return (
    <Loaded query={invitations} room="3rem">{(list) => list.length === 0 ? <p class="quiet">You have no open invitations.</p> : (
      <div class="stack">
        <Table caption="Your invitations" rows={list} id={(i) => i.id} columns={[
          { head: "Organization", cell: (i) => i.organization.name },
          { head: "Role", tight: true, cell: (i) => i.role },
          { head: "Expires", tight: true, cell: (i) => <Time at={i.expiresAt} /> },
          { head: "Actions", silent: true, tight: true, cell: (i) => (
            <div class="actions">
              <Button look="bare" label={`Accept the invitation from ${i.organization.name}`} onClick={() => accept(i)}>Accept</Button>
              <Confirm look="remove" action="Decline" label={`Decline the invitation from ${i.organization.name}`} question={`Decline the invitation from ${i.organization.name}?`} detail="Its link stops working."
                request={{ method: "POST", path, params: { id: i.id, action: "decline" }, credential: "session" }} onConfirm={() => decline(i)} />
            </div>
          ) },
        ]} />
        <More list={invitations} />
      </div>
    )}</Loaded>
  );
}
