// The person's login sessions.
import { del } from "../../api";
import { leave } from "../../panels";
import { useList } from "../../query";
import * as texts from "../../texts/org";
import { Words } from "../../texts/org";
import type { LoginSession } from "../../types";
import { Confirm } from "../../ui/confirm";
import { Loaded, More, Section, Time } from "../../ui/parts";
import { Table } from "../../ui/table";

export function Sessions() {
  const sessions = useList<LoginSession>("/api/auth/sessions");
  const end = (s: LoginSession) => del("/api/auth/sessions", { id: s.id }).then(() => {
    if (s.current) leave("/login");
    else sessions.reload();
  });
  return (
    <Section title={Words.yourLoginSessions} intro={Words.browsersAndPrograms}>
      <Loaded query={sessions} room="7.5rem">{(list) => (
        <div class="stack">
          <Table caption={Words.yourLoginSessions} rows={list} id={(s) => s.id} columns={[
            { head: Words.browserOrProgram, cell: (s) => <span class="browser"><span title={s.userAgent}>{browserName(s.userAgent)}</span>{s.current && <span class="tag">{Words.thisOne}</span>}</span> },
            { head: Words.ipAddress, tight: true, cell: (s) => s.address },
            { head: Words.since, tight: true, cell: (s) => <Time at={s.createdAt} /> },
            { head: Words.lastUsed, tight: true, cell: (s) => <Time at={s.lastUsedAt} /> },
            { head: Words.actions, silent: true, tight: true, cell: (s) => (
              <div class="actions">
                <Confirm look="remove" action={Words.end} label={s.current ? Words.endThisSession : texts.endSessionFrom(s.address)}
                  question={Words.endThisSessionQuestion} detail={s.current ? Words.youWillBeSigned : Words.browserOrProgramThatUses}
                  request={{ method: "DELETE", path: "/api/auth/sessions", params: { id: s.id }, credential: "session" }} onConfirm={() => end(s)} />
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
function browserName(userAgent: string): string {
  const named = (from: [RegExp, string][]) => from.find(([mark]) => mark.test(userAgent))?.[1];
  const browser = named(browsers);
  const system = named(systems);
  if (browser === undefined) return userAgent.slice(0, 40) || Words.unknown;
  return system === undefined ? browser : texts.browserOnSystem(browser, system);
}
