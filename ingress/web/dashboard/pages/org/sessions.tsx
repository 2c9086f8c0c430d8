// The person's login sessions.
import { del } from "../../api";
import { useList } from "../../query";
import type { LoginSession } from "../../types";
import { Confirm } from "../../ui/confirm";
import { Loaded, More, Section, Time } from "../../ui/parts";
import { Table } from "../../ui/table";

export function Sessions() {
  const sessions = useList<LoginSession>("/api/auth/sessions");
  const end = (s: LoginSession) => del("/api/auth/sessions", { id: s.id }).then(() => {
    if (s.current) location.assign("/login");
    else sessions.reload();
  });
  return (
    <Section title="Your login sessions" intro="The browsers and programs that are signed in to your account. If you don’t recognize a session, end it, and ask an admin for a link to set a new password.">
      <Loaded query={sessions} room="7.5rem">{(list) => (
        <div class="stack">
          <Table caption="Your login sessions" rows={list} id={(s) => s.id} columns={[
            { head: "Browser or program", cell: (s) => <span class="browser"><span title={s.userAgent}>{browserOf(s.userAgent)}</span>{s.current && <span class="tag">this one</span>}</span> },
            { head: "IP address", tight: true, cell: (s) => s.address },
            { head: "Since", tight: true, cell: (s) => <Time at={s.createdAt} /> },
            { head: "Last used", tight: true, cell: (s) => <Time at={s.lastUsedAt} /> },
            { head: "Actions", silent: true, tight: true, cell: (s) => (
              <div class="actions">
                <Confirm look="remove" action="End" label={s.current ? "End this session" : `End the session from ${s.address}`} request={{ method: "DELETE", path: "/api/auth/sessions", params: { id: s.id }, credential: "session" }} question="End this session?" detail={s.current ? "You will be signed out here." : "The browser or program that uses it is signed out within five seconds."} onConfirm={() => end(s)} />
              </div>
            ) },
          ]} />
          <More list={sessions} />
        </div>
      )}</Loaded>
    </Section>
  );
}

const browsers: [RegExp, string][] = [[/Edg\//, "Edge"], [/OPR\//, "Opera"], [/Firefox\//, "Firefox"], [/Chrome\//, "Chrome"], [/Safari\//, "Safari"]];
const systems: [RegExp, string][] = [[/Android/, "Android"], [/iPhone|iPad/, "iOS"], [/Windows/, "Windows"], [/Mac OS X/, "macOS"], [/Linux/, "Linux"]];

/**
 * Returns the browser and the system that a user agent names. For other programs, returns the first
 * 40 characters of the user agent.
 */
function browserOf(userAgent: string): string {
  const named = (from: [RegExp, string][]) => from.find(([mark]) => mark.test(userAgent))?.[1];
  const browser = named(browsers);
  const system = named(systems);
  if (browser === undefined) return userAgent.slice(0, 40) || "unknown";
  return system === undefined ? browser : `${browser} on ${system}`;
}
