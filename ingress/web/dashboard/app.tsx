// The frame around all pages, and the table of pages.
import { Component, type ComponentChildren, type ComponentType } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { chooseOrganization, chosenOrganization, enterDemo } from "./api";
import { later } from "./later";
import { BootContext } from "./state";
import { match, useRoute } from "./router";
import { Rail, VisitorRail } from "./rail";
import { Words } from "./texts/frame";
import type { Boot, Session } from "./types";
import { Button, LinkButton } from "./ui/button";
import { Empty, PageHeader } from "./ui/parts";
import { ApiRequests } from "./ui/requests";
import { Toasts } from "./ui/toasts";
import { ApiScope } from "./ui/curl";
import { Shortcuts } from "./shortcuts";
import { AgentPage } from "./pages/agent";
import { AgentsPage } from "./pages/agents";
import { HomePage } from "./pages/home";
import { InboxPage } from "./pages/inbox";
import { RunsPage } from "./pages/runs";
import { TemplatesPage } from "./pages/templates";

const administration = later(() => import("./pages/administration"));
const AutomationsPage = administration((pages) => pages.AutomationsPage);
const HookPage = administration((pages) => pages.HookPage);
const NewHookPage = administration((pages) => pages.NewHookPage);
const OrgPage = administration((pages) => pages.OrgPage);
const RunPage = later(() => import("./pages/run"))((page) => page.RunPage);
const KnowledgePage = later(() => import("./pages/knowledge"))((page) => page.KnowledgePage);

interface Page {
  path: string;
  show: ComponentType<Record<string, string>>;
  demo?: boolean; // whether the page is available in the demo
  wide?: boolean;
}

/** All pages. A page receives the value of each :name in its path as a parameter. */
const pages: Page[] = [
  { path: "/dashboard", show: HomePage },
  { path: "/dashboard/inbox", show: InboxPage },
  { path: "/dashboard/agents", show: AgentsPage },
  { path: "/dashboard/agents/:id", show: AgentPage, wide: true },
  { path: "/dashboard/agents/:id/:tab", show: AgentPage, wide: true },
  { path: "/dashboard/templates", show: TemplatesPage, demo: true },
  { path: "/dashboard/templates/:id", show: TemplatesPage, demo: true },
  { path: "/dashboard/knowledge", show: KnowledgePage },
  { path: "/dashboard/runs", show: RunsPage, wide: true },
  { path: "/dashboard/runs/:id", show: RunPage, wide: true },
  { path: "/dashboard/automations", show: AutomationsPage },
  { path: "/dashboard/automations/new", show: NewHookPage },
  { path: "/dashboard/automations/:id", show: HookPage },
  { path: "/dashboard/automations/:id/:tab", show: HookPage },
  { path: "/dashboard/org", show: OrgPage },
  { path: "/dashboard/org/:tab", show: OrgPage },
];

export function App({ boot }: { boot: Boot }) {
  const route = useRoute();
  const session = boot.session === null ? null : chosen(boot.session);
  const demo = session === null || (route.path.startsWith("/dashboard/templates") && route.query.get("token") === "demo");

  enterDemo(demo);
  const found = find(route.path);
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);

  useEffect(() => {
    if (first.current) first.current = false;
    else main.current?.focus({ preventScroll: true }); // screen readers begin to read a new page at its top
  }, [route.path]);

  const Shown = found && (!demo || found.page.demo) ? found.page.show : null;
  return (
    <BootContext.Provider value={{ ...boot, session: demo ? null : session }}>
      <a class="skip" href="#content">{Words.skipToContent}</a>
      <div class="frame">
        {demo ? <VisitorRail signedIn={session !== null} /> : <Rail path={route.path} session={session} />}
        <main id="content" ref={main} tabIndex={-1} class={"content" + (found?.page.wide ? " wide" : "")}>
          <Boundary key={JSON.stringify([found?.page.path.replace(/\/:tab$/, ""), found?.params["id"], demo])}>
            <ApiScope>{Shown && found ? <Shown {...found.params} /> : <Nowhere demo={demo} />}</ApiScope>
          </Boundary>
        </main>
      </div>
      {!demo && <Shortcuts />}
      <ApiRequests path={route.path} />
      <Toasts />
    </BootContext.Provider>
  );
}

/** Limits a rendering error to one page: the navigation around the page keeps working. */
class Boundary extends Component<{ children: ComponentChildren }, { broken: boolean }> {
  override state = { broken: false };

  static getDerivedStateFromError() {
    return { broken: true };
  }

  override componentDidCatch(error: unknown): void {
    console.error(error);
  }

  override render() {
    if (!this.state.broken) return this.props.children;
    return (
      <>
        <PageHeader title={Words.thisPageFailed} />
        <Empty title={Words.couldntShowThisPage} action={<Button look="primary" onClick={() => location.reload()}>{Words.reloadThePage}</Button>}>
          {Words.yourSavedData}
        </Empty>
      </>
    );
  }
}

function find(path: string): { page: Page; params: Record<string, string> } | null {
  for (const page of pages) {
    const params = match(page.path, path);
    if (params) return { page, params };
  }
  return null;
}

/**
 * Returns the session with the organization that was chosen in this browser. If the person is no
 * longer a member of that organization, returns the session unchanged.
 */
function chosen(session: Session): Session {
  const id = chosenOrganization();
  const other = session.organizations.find((o) => o.id === id);
  if (id === null || id === session.organization.id) return session;
  if (!other) {
    chooseOrganization(null);
    return session;
  }
  return { ...session, organization: other, caller: { ...session.caller, organizationId: other.id, role: other.role } };
}

function Nowhere({ demo }: { demo: boolean }) {
  return (
    <>
      <PageHeader title={demo ? Words.notAvailableInDemo : Words.pageNotFound} />
      <Empty title={demo ? Words.demoOffersChats : Words.thereIsNothing} action={<LinkButton href={demo ? "/dashboard/templates?token=demo" : "/dashboard"} look="primary">{demo ? Words.goToTemplates : Words.goToHome}</LinkButton>}>
        {demo ? Words.signUpToCreate : Words.linkMayBeIncomplete}
      </Empty>
    </>
  );
}
