// The frame around all pages, and the table of pages.
import { Component, type ComponentChildren, type ComponentType } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { chooseOrganization, chosenOrganization, enterDemo, post } from "./api";
import { later } from "./later";
import { BootContext } from "./state";
import { match, usePlace } from "./router";
import type { Boot, Role, Session } from "./types";
import { Button, LinkButton } from "./ui/button";
import { Curl } from "./ui/curl";
import { Icon, Mark, type IconName } from "./ui/icon";
import { Empty, PageHeader } from "./ui/parts";
import { Toasts } from "./ui/toasts";
import { AgentPage } from "./pages/agent";
import { AgentsPage } from "./pages/agents";
import { KnowledgePage } from "./pages/knowledge";
import { RunPage } from "./pages/run";
import { RunsPage } from "./pages/runs";
import { TemplatesPage } from "./pages/templates";

const administration = later(() => import("./pages/administration"));
const AutomationsPage = administration((pages) => pages.AutomationsPage);
const HookPage = administration((pages) => pages.HookPage);
const NewHookPage = administration((pages) => pages.NewHookPage);
const OrgPage = administration((pages) => pages.OrgPage);

interface Page {
  path: string;
  show: ComponentType<Record<string, string>>;
  demo?: boolean; // available in the demo
  wide?: boolean;
}

/** All pages. A page receives the value of each :name in its path as a parameter. */
const pages: Page[] = [
  { path: "/dashboard", show: AgentsPage },
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

interface Link {
  href: string;
  words: string;
  icon: IconName;
  least: Role;
}

const links: Link[] = [
  { href: "/dashboard", words: "Agents", icon: "agents", least: "member" },
  { href: "/dashboard/templates", words: "Templates", icon: "templates", least: "member" },
  { href: "/dashboard/knowledge", words: "Knowledge", icon: "knowledge", least: "member" },
  { href: "/dashboard/runs", words: "Runs", icon: "runs", least: "member" },
  { href: "/dashboard/automations", words: "Automations", icon: "automations", least: "admin" },
  { href: "/dashboard/org", words: "Organization", icon: "org", least: "member" },
];

export function App({ boot }: { boot: Boot }) {
  const place = usePlace();
  const session = boot.session === null ? null : chosen(boot.session);
  const demo = session === null || (place.path.startsWith("/dashboard/templates") && place.query.get("token") === "demo");

  enterDemo(demo);
  const found = find(place.path);
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);

  useEffect(() => {
    if (first.current) first.current = false;
    else main.current?.focus(); // a new page starts at its top, for screen readers too
  }, [place.path]);

  const Shown = found && (!demo || found.page.demo) ? found.page.show : null;
  return (
    <BootContext.Provider value={{ ...boot, session: demo ? null : session }}>
      <a class="skip" href="#content">Skip to content</a>
      <div class="frame">
        <header class="rail">
          <a class="brand" href={demo ? "/dashboard/templates?token=demo" : "/dashboard"}><Mark />Parley</a>
          {demo ? <Visitor signedIn={session !== null} /> : <><Navigation path={place.path} role={session?.caller.role ?? "member"} /><Who session={session} /></>}
        </header>
        <main id="content" ref={main} tabIndex={-1} class={"content" + (found?.page.wide ? " wide" : "")}>
          <Boundary key={JSON.stringify([found?.page.path.replace(/\/:tab$/, ""), found?.params["id"], demo])}>
            {Shown && found ? <Shown {...found.params} /> : <Nowhere demo={demo} />}
          </Boundary>
        </main>
      </div>
      <Toasts />
    </BootContext.Provider>
  );
}

/** Limits a rendering error to one page: the frame around the page keeps working. */
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
        <PageHeader title="This page failed" />
        <Empty title="Couldn't show this page" action={<Button look="primary" onClick={() => location.reload()}>Reload the page</Button>}>
          Your saved data is safe. Reload the page. If it fails again, the browser’s console shows the error.
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
 * Returns the session in the organization that was chosen in this browser, if the person is still a
 * member of that organization.
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

function Navigation({ path, role }: { path: string; role: Role }) {
  const strip = useRef<HTMLElement>(null);
  useEffect(() => {
    const nav = strip.current;
    const now = nav?.querySelector("[aria-current]");
    if (!nav || !now) return;
    const sized = new ResizeObserver(() => { // also called immediately; a wide window does not scroll
      const [around, link] = [nav.getBoundingClientRect(), now.getBoundingClientRect()];
      nav.scrollLeft += link.left + link.width / 2 - around.left - around.width / 2;
    });
    sized.observe(nav);
    return () => sized.disconnect();
  }, [path]);
  const current = (href: string) => (href === "/dashboard" ? path === href || path.startsWith("/dashboard/agents") : path.startsWith(href));
  return (
    <nav aria-label="Pages" ref={strip}>
      <ul>
        {links.filter((l) => l.least === "member" || role !== "member").map((l) => (
          <li key={l.href}><a href={l.href} aria-current={current(l.href) ? "page" : undefined}><Icon name={l.icon} />{l.words}</a></li>
        ))}
      </ul>
    </nav>
  );
}

function Who({ session }: { session: Session | null }) {
  if (!session) return null;
  const leave = async () => {
    await post("/api/auth/logout");
    chooseOrganization(null);
    location.assign("/login");
  };
  const choose = (id: string) => {
    chooseOrganization(id === session.organizations[0]?.id ? null : id);
    location.assign("/dashboard");
  };
  return (
    <div class="who">
      {session.organizations.length > 1 ? (
        <select class="input" aria-label="Organization" value={session.organization.id} onChange={(e) => choose(e.currentTarget.value)}>
          {session.organizations.map((o) => <option key={o.id} value={o.id} selected={o.id === session.organization.id}>{o.name}</option>)}
        </select>
      ) : <span class="organization">{session.organization.name}</span>}
      <span class="who-name">{session.user?.name || session.user?.email}</span>
      <Button look="bare" icon="out" onClick={leave}>Sign out</Button>
      <Curl what="Sign out" request={{ method: "POST", path: "/api/auth/logout", credential: "session" }} />
    </div>
  );
}

function Visitor({ signedIn }: { signedIn: boolean }) {
  return (
    <div class="who">
      {signedIn ? <LinkButton href="/dashboard/templates">Leave the demo</LinkButton> : (
        <>
          <a class="button" href="/login">Sign in</a>
          <a class="button primary" href="/signup">Sign up</a>
        </>
      )}
    </div>
  );
}

function Nowhere({ demo }: { demo: boolean }) {
  return (
    <>
      <PageHeader title={demo ? "Not available in the demo" : "Page not found"} />
      <Empty title={demo ? "The demo offers chats with templates only" : "There is nothing at this address"} action={<LinkButton href={demo ? "/dashboard/templates?token=demo" : "/dashboard"} look="primary">{demo ? "Go to templates" : "Go to agents"}</LinkButton>}>
        {demo ? "Sign up to create agents, give them documents and run them on a schedule." : "The link may be incomplete, or the item was deleted."}
      </Empty>
    </>
  );
}
