// The list of shortcuts, and the finder, a search that leads to pages, agents, templates, documents,
// webhooks, automations and runs.
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { signOut } from "./account";
import { get } from "./api";
import { setSingleKeys, singleKeys } from "./keys";
import { useQuery } from "./query";
import { leave } from "./panels";
import { links } from "./rail";
import { go } from "./router";
import { useMay } from "./state";
import * as texts from "./texts/finder";
import { Words } from "./texts/finder";
import { chooseTheme } from "./theme";
import type { Agent, Automation, Document, Hook, List, Template } from "./types";
import { Dialog } from "./ui/dialog";
import { Switch } from "./ui/field";
import { Icon, type IconName } from "./ui/icon";

interface Entry {
  kind: "Page" | "Action" | "Agent" | "Template" | "Document" | "Webhook" | "Automation" | "Run" | "Search";
  words: string;
  icon: IconName;
  /** The URL that the entry opens, or the function that it calls. */
  to: string | (() => unknown);
}

const maxEntries = 12; // maximum number of entries shown
const someRun = /^run_[0-7][0-9a-hjkmnp-tv-z]{25}$/;

/**
 * Returns the entries that contain all words of the text in their kind and name. Entries that begin
 * with the text come first.
 */
export function matchEntries(entries: Entry[], text: string): Entry[] {
  const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
  const first = (e: Entry) => (wanted[0] !== undefined && e.words.toLowerCase().startsWith(wanted[0]) ? 0 : 1);
  return entries.filter((e) => wanted.every((word) => `${e.kind} ${e.words}`.toLowerCase().includes(word))).sort((a, b) => first(a) - first(b));
}

function fixedEntries(admin: boolean, help: () => void): Entry[] {
  const page = (words: string, icon: IconName, to: string): Entry => ({ kind: Words.page, words, icon, to });
  const action = (words: string, icon: IconName, to: Entry["to"]): Entry => ({ kind: Words.action, words, icon, to });
  const pages = links.filter((l) => admin || l.least === "member").map((l) => page(l.words, l.icon, l.href));
  const administration = admin ? [
    page(Words.usageAndBudgets, "org", "/dashboard/org/usage"), page(Words.notifications, "org", "/dashboard/org/notifications"),
    action(Words.newAgent, "plus", "/dashboard/agents?new=1"), action(Words.newWebhook, "plus", "/dashboard/automations/new"),
    action(Words.uploadADocument, "upload", "/dashboard/knowledge"), action(Words.createApiKey, "plus", "/dashboard/org"),
  ] : [];
  return [
    ...pages, ...administration,
    action(Words.runsThatNeedYou, "warn", "/dashboard/runs?waitsFor=person"), action(Words.failedRuns, "warn", "/dashboard/runs?status=failed"),
    page(Words.documentation, "file", "/docs"), page(Words.apiReference, "curl", "/docs/api"),
    action(Words.lightTheme, "edit", () => chooseTheme("light")), action(Words.darkTheme, "edit", () => chooseTheme("dark")),
    action(Words.themeOfSystem, "edit", () => chooseTheme("system")), action(Words.keyboardShortcuts, "menu", help), action(Words.signOut, "out", signOut),
  ];
}

const maxFound = 50; // maximum number of entries in one response
const maxSearchLength = 120; // maximum number of characters that the service accepts in a search
const maxListed = 100; // maximum number of webhooks and of automations whose names are matched

/**
 * Loads the newest entries of a kind whose names contain all words of a text. Words that name the
 * kind are ignored. While the new entries load, the previous entries stay, so that no entry moves
 * under the pointer.
 */
function useNamed<T>(kind: string, path: string, text: string): { data: T[]; loading: boolean; failed: boolean } {
  const q = text.split(/\s+/).filter((word) => word.toLowerCase() !== kind).join(" ").slice(0, maxSearchLength);
  const query = useQuery(`${kind} named ${q}`, (signal) => get<List<T>>(path, { q, limit: maxFound }, signal));
  const known = useRef<T[]>([]);
  if (query.data) known.current = query.data.data;
  return { data: known.current, loading: query.loading, failed: query.error !== undefined };
}

/**
 * Returns the entries that match a text: objects that the service has found, and links that search
 * for the text.
 */
function useFound(text: string, help: () => void): { entries: Entry[]; loading: boolean; failed: boolean } {
  const admin = useMay("admin");
  const typed = text.trim();
  const [asked, setAsked] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => setAsked(typed), 150);
    return () => clearTimeout(timer);
  }, [typed]);
  const agents = useNamed<Agent>("agent", "/api/agents", asked);
  const templates = useQuery("templates", (signal) => get<List<Template>>("/api/agents/templates", {}, signal));
  const documents = useNamed<Document>("document", "/api/knowledge", asked);
  const hooks = useQuery(admin ? "hooks" : null, (signal) => get<List<Hook>>("/api/hooks", { limit: maxListed }, signal));
  const automations = useQuery(admin ? "automations" : null, (signal) => get<List<Automation>>("/api/automations", { limit: maxListed }, signal));

  const entries = matchEntries([
    ...fixedEntries(admin, help),
    ...agents.data.map((a): Entry => ({ kind: Words.agent, words: a.name, icon: "agents", to: "/dashboard/agents/" + encodeURIComponent(a.id) })),
    ...(templates.data?.data ?? []).map((t): Entry => ({ kind: Words.template, words: t.name, icon: "templates", to: "/dashboard/templates/" + encodeURIComponent(t.id) })),
    ...documents.data.map((d): Entry => ({ kind: Words.document, words: d.name, icon: "file", to: "/dashboard/knowledge?id=" + encodeURIComponent(d.id) })),
    ...(hooks.data?.data ?? []).map((h): Entry => ({ kind: Words.webhook, words: h.name, icon: "automations", to: "/dashboard/automations/" + h.id })),
    ...(automations.data?.data ?? []).map(({ id }): Entry => ({ kind: Words.automation, words: id, icon: "runs", to: "/dashboard/runs?automation=" + encodeURIComponent(id) })),
  ], typed).slice(0, maxEntries);
  if (someRun.test(typed)) entries.unshift({ kind: Words.run, words: typed, icon: "runs", to: "/dashboard/runs/" + typed });
  if (typed !== "") {
    const q = encodeURIComponent(typed.slice(0, 200));
    entries.push({ kind: Words.search, words: texts.runsWithTyped(typed), icon: "search", to: "/dashboard/runs?q=" + q },
      { kind: Words.search, words: texts.documentationAboutTyped(typed), icon: "search", to: "/docs?q=" + q });
  }
  const failed = agents.failed || documents.failed || [templates, hooks, automations].some((list) => list.error !== undefined);
  return { entries, loading: agents.loading || documents.loading || asked !== typed, failed };
}

export function Finder({ onClose, onHelp }: { onClose: () => void; onHelp: () => void }) {
  const id = useId();
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const { entries, loading, failed } = useFound(text, onHelp);
  const current = Math.min(at, entries.length - 1);
  useEffect(() => document.getElementById(`${id}-${current}`)?.scrollIntoView({ block: "nearest" }), [current]);

  const choose = (entry: Entry | undefined) => {
    if (!entry) return;
    onClose();
    if (typeof entry.to === "function") entry.to();
    else if (entry.to.startsWith("/dashboard")) go(entry.to);
    else leave(entry.to);
  };
  const press = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setAt((current + step + entries.length) % entries.length);
    else if (event.key === "Enter") choose(entries[current]);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title={Words.find} onClose={onClose} kept>
      <div class="stack tight finder-body">
        <input class="input" role="combobox" aria-label={Words.pagesAgentsDocumentsRuns} placeholder={Words.pageAgentDocument}
          aria-expanded="true" aria-controls={id} aria-activedescendant={current >= 0 ? `${id}-${current}` : undefined} aria-autocomplete="list" autocomplete="off"
          spellcheck={false} autofocus value={text} onInput={(e) => { setText(e.currentTarget.value); setAt(0); }} onKeyDown={press} />
        <ul id={id} role="listbox" aria-label={Words.found} aria-busy={loading}>
          {entries.map((e, i) => (
            <li key={e.kind + String(e.to) + e.words} id={`${id}-${i}`} role="option" aria-selected={i === current} onClick={() => choose(e)} onMouseMove={() => setAt(i)}>
              <Icon name={e.icon} /><span class="found">{e.words}</span><span class="quiet small">{e.kind}</span>
            </li>
          ))}
        </ul>
        <p class="hint" role="status">{loading ? "" : failed ? Words.couldntLoadAllAgents : entries.length === 2 && text.trim() !== "" ? Words.noPageAgentDocument : ""}</p>
      </div>
    </Dialog>
  );
}

const keys = [
  [Words.ctrlKOrK, Words.findPagesAgentsDocuments],
  ["/", Words.searchOnThisPage],
  ["?", Words.showTheseShortcuts],
  [Words.esc, Words.closeDialogOrMenu],
  ["Enter", Words.sendMessageShiftEnter],
  ["M", Words.muteMicrophoneWhileFocus],
] as const;

export function Help({ onClose }: { onClose: () => void }) {
  const [on, setOn] = useState(singleKeys);
  const choose = (wanted: boolean) => {
    setSingleKeys(wanted);
    setOn(wanted);
  };
  return (
    <Dialog title={Words.keyboardShortcuts} onClose={onClose} kept>
      <div class="stack">
        <dl class="shortcuts">
          {keys.map(([key, means]) => <div key={key} class="shortcut"><dt><kbd>{key}</kbd></dt><dd>{means}</dd></div>)}
        </dl>
        <Switch label={Words.shortcutsOfSingleKey} hint={Words.keysAnd} checked={on} onChange={choose} />
      </div>
    </Dialog>
  );
}
