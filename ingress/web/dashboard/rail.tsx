// The navigation and the account. They are in a column beside the page or, on a phone, in a header
// with a menu.
import { useEffect, useState } from "preact/hooks";
import { signOut } from "./account";
import { chooseOrganization } from "./api";
import { useCurrentOverview } from "./overview";
import { openFinder } from "./keys";
import { SetPassword } from "./password";
import * as texts from "./texts/frame";
import { Words } from "./texts/frame";
import { chooseTheme, theme, type Theme } from "./theme";
import { formatBadge } from "./title";
import type { Role, Session } from "./types";
import { Button, LinkButton } from "./ui/button";
import { Icon, Mark, type IconName } from "./ui/icon";

export interface Link {
  href: string;
  words: string;
  icon: IconName;
  least: Role;
}

export const links: Link[] = [
  { href: "/dashboard", words: Words.home, icon: "home", least: "member" },
  { href: "/dashboard/inbox", words: Words.inbox, icon: "inbox", least: "member" },
  { href: "/dashboard/agents", words: Words.agents, icon: "agents", least: "member" },
  { href: "/dashboard/templates", words: Words.templates, icon: "templates", least: "member" },
  { href: "/dashboard/knowledge", words: Words.knowledge, icon: "knowledge", least: "member" },
  { href: "/dashboard/runs", words: Words.runs, icon: "runs", least: "member" },
  { href: "/dashboard/automations", words: Words.automations, icon: "automations", least: "admin" },
  { href: "/dashboard/org", words: Words.organization, icon: "org", least: "member" },
];

/** The navigation of a signed-in person. */
export function Rail({ path, session }: { path: string; session: Session | null }) {
  const waiting = useCurrentOverview().data?.approvals ?? 0;
  const [open, setOpen] = useState(false); // whether the menu is open on a phone; wide windows always show it
  useEffect(() => setOpen(false), [path]);
  // The listener does not depend on whether the menu is open: effects run after the menu is shown,
  // so a key that is pressed at once would be lost.
  useEffect(() => {
    const close = (event: KeyboardEvent) => {
      if (event.key === "Escape") setOpen(false);
    };
    addEventListener("keydown", close);
    return () => removeEventListener("keydown", close);
  }, []);
  return (
    <header class={"rail" + (open ? " open" : "")}>
      <a class="brand" href="/dashboard">{texts.brand(<Mark />)}</a>
      <span class="finder"><Button icon="search" keys="Control+K Meta+K" onClick={openFinder}><span>{Words.find}</span><kbd aria-hidden="true">{texts.findShortcut(/Mac|iPhone|iPad/.test(navigator.platform) ? "⌘" : Words.ctrl)}</kbd></Button></span>
      <span class="menu"><Button icon="menu" expanded={open} onClick={() => setOpen(!open)}>{Words.menu}{!open && <Badge count={waiting} />}</Button></span>
      <Navigation path={path} role={session?.caller.role ?? "member"} waiting={waiting} />
      {session && <Account session={session} />}
    </header>
  );
}

/** The navigation of a demo visitor. */
export function VisitorRail({ signedIn }: { signedIn: boolean }) {
  return (
    <header class="rail">
      <a class="brand" href="/dashboard/templates?token=demo">{texts.brand(<Mark />)}</a>
      <div class="visitor">
        {signedIn ? <LinkButton href="/dashboard/templates">{Words.leaveTheDemo}</LinkButton> : (
          <>
            <a class="button" href="/login">{Words.signIn}</a>
            <a class="button primary" href="/signup">{Words.signUp}</a>
          </>
        )}
      </div>
    </header>
  );
}

/** Shows the number of runs that wait for a decision, if there are any. */
function Badge({ count }: { count: number }) {
  if (count === 0) return null;
  return <span class="badge">{formatBadge(count)}<span class="visually-hidden">{" "}{Words.waiting}</span></span>;
}

function Navigation({ path, role, waiting }: { path: string; role: Role; waiting: number }) {
  const current = (href: string) => (href === "/dashboard" ? path === href : path.startsWith(href));
  return (
    <nav aria-label={Words.pages}>
      <ul>
        {links.filter((l) => l.least === "member" || role !== "member").map((l) => (
          <li key={l.href}><a href={l.href} aria-current={current(l.href) ? "page" : undefined}><Icon name={l.icon} />{l.words}{l.href === "/dashboard/inbox" && <Badge count={waiting} />}</a></li>
        ))}
      </ul>
    </nav>
  );
}

/** Shows the organization and a menu with the theme, the documentation and the sign-out. */
function Account({ session }: { session: Session }) {
  const [open, setOpen] = useState(false);
  const choose = (id: string) => {
    chooseOrganization(id === session.organizations[0]?.id ? null : id);
    location.assign("/dashboard");
  };
  const [asked, ask] = useState<"set" | "leave" | null>(null); // the command that opened the password dialog; null if the dialog is closed
  const email = session.user?.email;
  const name = session.user?.name || email || "";
  return (
    <div class="account">
      {session.organizations.length > 1 ? (
        <select class="input" aria-label={Words.organization} value={session.organization.id} onChange={(e) => choose(e.currentTarget.value)}>
          {session.organizations.map((o) => <option key={o.id} value={o.id} selected={o.id === session.organization.id}>{o.name}</option>)}
        </select>
      ) : <span class="organization">{session.organization.name}</span>}
      <Button look="bare" icon={open ? "up" : "down"} expanded={open} label={Words.account + name} onClick={() => setOpen(!open)}><span class="who">{name}</span></Button>
      {open && (
        <div class="account-menu">
          <ThemeChoice />
          <a href="/docs">{Words.documentation}</a>
          <a href="/docs/api">{Words.apiReference}</a>
          {email && <Button look="bare" icon="key" onClick={() => ask("set")}>{Words.setAPassword}</Button>}
          <Button look="bare" icon="out" onClick={email && session.canLogIn === false ? () => ask("leave") : signOut}>{Words.signOut}</Button>
        </div>
      )}
      {asked && email && <SetPassword email={email} leaving={asked === "leave"} onClose={() => ask(null)} />}
    </div>
  );
}

const themes: Record<Theme, string> = { system: Words.themeOfSystem, light: Words.lightTheme, dark: Words.darkTheme };

function ThemeChoice() {
  const [now, setNow] = useState(theme());
  const choose = (wanted: Theme) => {
    chooseTheme(wanted);
    setNow(wanted);
  };
  return (
    <select class="input" aria-label={Words.theme} value={now} onChange={(e) => choose(e.currentTarget.value as Theme)}>
      {(Object.keys(themes) as Theme[]).map((t) => <option key={t} value={t} selected={t === now}>{themes[t]}</option>)}
    </select>
  );
}
