// The organization page: the organization's keys, members, usage, limits and notifications.
import { useState } from "preact/hooks";
import { chooseOrganization, post, put, type ApiError } from "../api";
import { leave } from "../panels";
import { useMay, useSession } from "../state";
import * as texts from "../texts/org";
import { Words } from "../texts/org";
import { wordFor } from "../texts/values";
import { Button } from "../ui/button";
import { Copy } from "../ui/copy";
import { Curl } from "../ui/curl";
import { Dialog } from "../ui/dialog";
import { TextField, fieldFault } from "../ui/field";
import { PageHeader, Problem } from "../ui/parts";
import { Invitations } from "./org/invitations";
import { Keys } from "./org/keys";
import { LimitsSection } from "./org/limits";
import { Members } from "./org/members";
import { Sessions } from "./org/sessions";
import { BudgetsSection } from "./org/budgets";
import { DisabledNote, NotificationsSection, useEndpoints } from "./org/notifications";
import { useSubjects } from "./org/subjects";
import { UsageSection } from "./org/usage";

const tabs = [
  { path: "", words: Words.access, guide: "dashboard#organization" },
  { path: "usage", words: Words.usage, guide: "budgets" },
  { path: "notifications", words: Words.notifications, guide: "notifications" },
];

export function OrgPage({ tab = "" }: Record<string, string>) {
  const session = useSession();
  const admin = useMay("admin");
  const owner = useMay("owner");
  const [naming, setNaming] = useState<"rename" | "create" | null>(null);
  const endpoints = useEndpoints(admin && tab === "notifications");
  if (!session) return null;
  const { organization } = session;
  const open = tabs.filter(({ path }) => admin || path !== "notifications");
  const { path: current, guide } = open.find(({ path }) => path === tab) ?? tabs[0]!;
  return (
    <>
      <PageHeader guide={guide} title={Words.organization} actions={
        <>
          {owner && <Button onClick={() => setNaming("rename")}>{Words.rename}</Button>}
          <Button onClick={() => setNaming("create")}>{Words.newOrganization}</Button>
        </>
      }>
        {texts.otherOrganizationsCantSee(organization.name)}
      </PageHeader>
      {current !== "notifications" && <DisabledNote />}
      <nav class="tabs" aria-label={Words.organization}>
        {open.map(({ path, words }) => (
          <a key={path} href={`/dashboard/org${path && "/" + path}`} aria-current={path === current ? "page" : undefined}>{words}</a>
        ))}
      </nav>
      <div class="stack loose" key={current}>
        {current === "" && (
          <>
            <p class="row small">
              <span class="quiet">{Words.organizationId}</span><code>{organization.id}</code><Copy text={organization.id} label={Words.copyOrganizationsId} />
              <span class="quiet">{texts.youArePart(wordFor(texts.someRole, session.caller.role))}</span>
            </p>
            <Keys />
            <Members />
            <Invitations />
            <Sessions />
          </>
        )}
        {current === "usage" && (
          <>
            {admin && <Consumption />}
            <LimitsSection />
          </>
        )}
        {current === "notifications" && <NotificationsSection endpoints={endpoints} />}
      </div>
      {naming && <NameDialog kind={naming} id={organization.id} name={naming === "rename" ? organization.name : ""} onClose={() => setNaming(null)} />}
    </>
  );
}

/** Shows usage and budgets, which share the names of agents and keys. */
function Consumption() {
  const subjects = useSubjects();
  return (
    <>
      <UsageSection subjects={subjects} />
      <BudgetsSection subjects={subjects} />
    </>
  );
}

function NameDialog({ kind, id, name: before, onClose }: { kind: "rename" | "create"; id: string; name: string; onClose: () => void }) {
  const [name, setName] = useState(before);
  const [error, setError] = useState<ApiError>();
  const save = async () => {
    try {
      if (kind === "rename") await put("/api/organizations", { name }, { id });
      else chooseOrganization((await post<{ id: string }>("/api/organizations", { name })).id);
      leave(); // loads the dashboard again, because the name and the role occur everywhere in it
    } catch (fault) {
      setError(fault as ApiError);
    }
  };
  return (
    <Dialog title={kind === "rename" ? Words.renameTheOrganization : Words.newOrganization} onClose={onClose} foot={
      <>
        <Curl what={kind === "rename" ? Words.renameTheOrganization : Words.createAnOrganization}
          request={{ method: kind === "rename" ? "PUT" : "POST", path: "/api/organizations", params: kind === "rename" ? { id } : {}, body: { name }, credential: "session" }} />
        <Button onClick={onClose}>{Words.cancel}</Button>
        <Button look="primary" onClick={save}>{kind === "rename" ? Words.rename : Words.createOrganization}</Button>
      </>
    }>
      <div class="stack">
        {kind === "create" && <p class="quiet">{Words.youBecomeItsOwner}</p>}
        <TextField label={Words.name} value={name} onChange={setName} maxLength={120} fault={fieldFault(error, "name")} />
        {error && error.errors.length === 0 && <Problem error={error} />}
      </div>
    </Dialog>
  );
}
