// The invitations to the person's own email address.
import { chooseOrganization, post } from "../../api";
import { useList } from "../../query";
import { useSession } from "../../state";
import type { OwnInvitation } from "../../types";
import { Button } from "../../ui/button";
import { Confirm } from "../../ui/confirm";
import { Loaded, More, Section, Time } from "../../ui/parts";
import { Table } from "../../ui/table";
import { invitations as texts } from "./texts";
import { toast } from "../../ui/toast";

const path = "/api/auth/invitations";

export function Invitations() {
  const proven = useSession()?.emailProven === true;
  return (
    <Section title={texts.title} intro={texts.intro}>
      {proven ? <List /> : <p class="quiet">{texts.unproven}</p>}
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
    toast(texts.declined(i.organization.name));
    invitations.reload();
  };
  return (
    <Loaded query={invitations} room="3rem">{(list) => list.length === 0 ? <p class="quiet">{texts.none}</p> : (
      <div class="stack">
        <Table caption={texts.title} rows={list} id={(i) => i.id} columns={[
          { head: texts.organization, cell: (i) => i.organization.name },
          { head: texts.role, tight: true, cell: (i) => i.role },
          { head: texts.expires, tight: true, cell: (i) => <Time at={i.expiresAt} /> },
          { head: texts.actions, silent: true, tight: true, cell: (i) => (
            <div class="actions">
              <Button look="bare" label={texts.acceptFrom(i.organization.name)} onClick={() => accept(i)}>{texts.accept}</Button>
              <Confirm look="remove" action={texts.decline} label={texts.declineFrom(i.organization.name)} question={texts.declineQuestion(i.organization.name)} detail={texts.declines}
                request={{ method: "POST", path, params: { id: i.id, action: "decline" }, credential: "session" }} onConfirm={() => decline(i)} />
            </div>
          ) },
        ]} />
        <More list={invitations} />
      </div>
    )}</Loaded>
  );
}
