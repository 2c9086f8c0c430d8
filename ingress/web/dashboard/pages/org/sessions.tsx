// Where the reader is signed in.
import { del } from "../../api";
import { useList } from "../../query";
import type { LoginSession } from "../../types";
import { Curl } from "../../ui/copy";
import { Confirm } from "../../ui/dialog";
import { Loaded, More, Section, Time } from "../../ui/parts";
import { Table } from "../../ui/table";

export function Sessions() {
  const sessions = useList<LoginSession>("/api/auth/sessions");
  const end = (s: LoginSession) => del("/api/auth/sessions", { id: s.id }).then(() => {
    if (s.current) location.assign("/login");
    else sessions.reload();
  });
  return (
    <Section title="Where you are signed in" intro="End a session that you do not know, and change your password.">
      <Loaded query={sessions} room="7.5rem">{(list) => (
        <div class="stack">
          <Table caption="Your login sessions" rows={list} id={(s) => s.id} columns={[
            { head: "Browser or program", cell: (s) => <span class="agent-name">{s.userAgent || "unknown"} {s.current && <span class="tag">this one</span>}</span> },
            { head: "Address", tight: true, cell: (s) => s.address },
            { head: "Since", tight: true, cell: (s) => <Time at={s.createdAt} /> },
            { head: "Last used", tight: true, cell: (s) => <Time at={s.lastUsedAt} /> },
            { head: "Actions", silent: true, tight: true, cell: (s) => (
              <div class="actions">
                <Confirm look="bare" action="End" label={s.current ? "End this session" : `End the session from ${s.address}`} question="End this session?" detail={s.current ? "You will be signed out here." : "Whoever uses it is signed out within five seconds."} onConfirm={() => end(s)} />
                <Curl what="End a session" request={{ method: "DELETE", path: "/api/auth/sessions", params: { id: s.id } }} />
              </div>
            ) },
          ]} />
          <More list={sessions} />
        </div>
      )}</Loaded>
    </Section>
  );
}
