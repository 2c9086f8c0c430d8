// The panel that shows a cited source: the text as the agent read it, with the cited words marked.
import { useEffect, useId, useRef } from "preact/hooks";
import { ApiError, get, inDemo } from "../api";
import { useBack } from "../panels";
import { useQuery } from "../query";
import * as texts from "../texts/answer";
import { Words } from "../texts/answer";
import type { Citation, DocumentPage, DocumentPassages, Source } from "../types";
import { Button } from "../ui/button";
import type { Request } from "../ui/copy";
import { Curl } from "../ui/curl";
import { count, Empty, Problem, Time, Loading } from "../ui/parts";
import { findQuote, webAddress } from "./quote";

interface Kept {
  text: string;
  truncated: boolean;
  readAt?: string;
}

/**
 * The minimum width of the window at which the panel fits next to the page. In a narrower window,
 * the panel covers the page.
 */
const wide = "(min-width: 120rem)";

/**
 * Shows a citation in the panel. The number is that of the source in the answer. The panel takes
 * the focus when it opens, and returns the focus when it closes.
 */
export function SourcePanel({ citation, number, onClose }: { citation: Citation; number: number; onClose: () => void }) {
  const panel = useRef<HTMLDialogElement>(null);
  const close = useRef(onClose);
  close.current = onClose;
  const heading = useId();
  useBeside(panel, close);
  useBack(onClose);
  const document = citation.documentId !== null;
  return (
    <dialog ref={panel} class="side source" aria-labelledby={heading}
      onCancel={(e) => { e.preventDefault(); onClose(); }} onClick={(e) => { if (e.target === panel.current && panel.current?.matches(":modal")) onClose(); }}>
      <div class="dialog-head">
        <div>
          <p class="quiet small">{texts.sourceNumberPartPart(number, document ? Words.aDocument : "", citation.page !== null ? texts.pagePagePart(citation.page) : "")}</p>
          <h2 id={heading} tabIndex={-1}>{citation.title || citation.url}</h2>
          <Whereabouts citation={citation} />
        </div>
        <Button look="bare" icon="close" label={Words.closeSource} onClick={onClose} />
      </div>
      <div class="dialog-body stack">
        {inDemo()
          ? <Cited words={citation.citedText} note={Words.demoShowsOnlyCited} />
          : <Content citation={citation} />}
      </div>
    </dialog>
  );
}

/**
 * Shows the panel beside the page while the component is mounted, or over the page if the window is
 * too narrow.
 */
function useBeside(panel: { current: HTMLDialogElement | null }, close: { current: () => void }): void {
  useEffect(() => {
    const before = document.activeElement;
    const room = matchMedia(wide);

    const show = () => {
      const dialog = panel.current;
      if (!dialog) return;
      if (dialog.open) dialog.close();
      if (room.matches) dialog.show();
      else dialog.showModal();
      dialog.querySelector("h2")?.focus();
    };
    const escape = (e: KeyboardEvent) => {
      if (e.key === "Escape" && !e.defaultPrevented && document.querySelector("dialog:modal") === null) close.current();
    };

    show();
    room.addEventListener("change", show);
    document.addEventListener("keydown", escape);
    return () => {
      room.removeEventListener("change", show);
      document.removeEventListener("keydown", escape);
      if (before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
    };
  }, []);
}

const maxQuote = 600; // maximum number of characters of a quote in a URL

/**
 * Returns the URL that shows a cited document at the cited passage. The quote is in the fragment,
 * which browsers do not send.
 */
export function documentHref(citation: Citation): string {
  const at = new URLSearchParams({ id: citation.documentId ?? "" });
  const chunk = new URLSearchParams(citation.url.split("?")[1] ?? "").get("chunk");
  if (citation.page !== null) at.set("page", String(citation.page));
  else if (chunk !== null) at.set("chunk", chunk);
  return `/dashboard/knowledge?${at}#${new URLSearchParams({ quote: citation.citedText.slice(0, maxQuote) })}`;
}

function Whereabouts({ citation }: { citation: Citation }) {
  const web = citation.documentId === null ? webAddress(citation.url) : null;
  const request = textRequest(citation);
  return (
    <div class="whereabouts">
      {citation.documentId === null && <p class="code quiet">{citation.url}</p>}
      <div class="actions">
        {web !== null && (
          <a class="button" href={web} target="_blank" rel="noopener noreferrer">{texts.openPageInNew()}</a>
        )}
        {citation.documentId !== null && !inDemo() && <a class="button" href={documentHref(citation)}>{Words.openTheDocument}</a>}
        {request !== null && !inDemo() && <Curl what={Words.readThisSource} request={request} />}
      </div>
    </div>
  );
}

/**
 * Returns the request that reads the cited text: a document's page or passage, or the stored text
 * of a web page. Returns null if no text is stored.
 */
function textRequest(citation: Citation): Request | null {
  if (citation.documentId !== null) {
    const asked = new URLSearchParams(citation.url.split("?")[1] ?? "");
    const at = citation.page !== null ? { page: citation.page } : { chunk: asked.get("chunk") ?? "0" };
    return { method: "GET", path: "/api/knowledge", params: { id: citation.documentId, ...at } };
  }
  return citation.sourceId ? { method: "GET", path: "/api/sources", params: { id: citation.sourceId } } : null;
}

async function keptText(request: Request, signal: AbortSignal): Promise<Kept> {
  if (request.path === "/api/sources") return get<Source>(request.path, request.params, signal);
  const read = await get<DocumentPage | DocumentPassages>(request.path, request.params, signal);
  if ("text" in read) return { text: read.text, truncated: read.truncated === true };
  return { text: read.passages.map((p) => p.text).join("\n\n"), truncated: false };
}

function Content({ citation }: { citation: Citation }) {
  const request = textRequest(citation);
  const query = useQuery(request === null ? null : JSON.stringify(request), (signal) => keptText(request ?? { method: "GET", path: "" }, signal));
  if (request === null) return <Cited words={citation.citedText} note={Words.textOfThisSource} />;
  if (query.data) return <Marked kept={query.data} words={citation.citedText} isDocument={citation.documentId !== null} />;
  if (query.error instanceof ApiError && (query.error.status === 404 || query.error.status === 410)) return <Gone citation={citation} />;
  if (query.error) return <Problem error={query.error} retry={query.reload} />;
  return <Loading words={Words.loadingTheSource} />;
}

function Gone({ citation }: { citation: Citation }) {
  return (
    <>
      <Empty title={Words.textNoLongerAvailable}>
        {texts.theseAreCitedWords(citation.documentId === null ? Words.itWasDeleted : Words.documentWasDeleted)}
      </Empty>
      <Cited words={citation.citedText} />
    </>
  );
}

function Cited({ words, note }: { words: string; note?: string }) {
  return (
    <>
      <blockquote class="source-text"><mark>{words}</mark></blockquote>
      {note && <p class="hint">{note}</p>}
    </>
  );
}

function Marked({ kept, words, isDocument }: { kept: Kept; words: string; isDocument: boolean }) {
  const mark = useRef<HTMLElement>(null);
  const at = findQuote(kept.text, words);
  useEffect(() => mark.current?.scrollIntoView({ block: "center" }), [kept.text, words]);
  return (
    <>
      {at === null && <Cited words={words} note={Words.currentTextNoLonger} />}
      <div class="source-text" tabIndex={0} role="region" aria-label={Words.textOfSource}>
        {at === null ? kept.text : <>{kept.text.slice(0, at[0])}<mark ref={mark}>{kept.text.slice(...at)}</mark>{kept.text.slice(at[1])}</>}
      </div>
      <p class="hint">
        {isDocument ? Words.citedPassageOfDocument : <>{texts.textAsItWasRead(kept.readAt ? <> <Time at={kept.readAt} /></> : "")}</>}
        {kept.truncated && texts.onlyFirstCharacters(count(kept.text.length))}
      </p>
    </>
  );
}
