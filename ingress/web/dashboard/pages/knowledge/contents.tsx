// The contents of a document: the pages of a PDF as pictures, and the extracted text. A cited passage
// is marked in both.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get } from "../../api";
import { findQuote } from "../../answer/quote";
import { useQuery } from "../../query";
import * as texts from "../../texts/knowledge";
import { Words } from "../../texts/knowledge";
import type { Document, DocumentPage, DocumentPassages, DocumentPicture, PagePicture, Passage } from "../../types";
import { Button } from "../../ui/button";
import { Loaded, Problem, Loading } from "../../ui/parts";
import { findMarks, type Box } from "./marks";

/** A passage to show: its page or its number, and the quoted words. */
export interface CitedPassage {
  page: number | null;
  chunk: number | null;
  quote: string;
}

/** Reads the passage to show from the URL of a citation (see documentHref). */
export function passageInUrl(): CitedPassage | undefined {
  const query = new URLSearchParams(location.search);
  const [page, chunk] = [Number(query.get("page") ?? "0"), Number(query.get("chunk") ?? "-1")];
  if (!(page > 0 || chunk >= 0)) return undefined;
  return { page: page > 0 ? page : null, chunk: chunk >= 0 ? chunk : null, quote: new URLSearchParams(location.hash.slice(1)).get("quote") ?? "" };
}

type Part = Pick<DocumentPage, "text" | "passages">;

/** Shows a document page by page, or passage by passage if there are no pages. */
export function Contents({ of: d, passage }: { of: Document; passage?: CitedPassage }) {
  const paged = d.pages !== null && d.pages > 0;
  const last = paged ? (d.pages ?? 1) : Math.max(1, d.chunks);
  const first = Math.min(last, Math.max(1, (paged ? passage?.page : (passage?.chunk ?? 0) + 1) ?? 1));
  const [page, setPage] = useState(first);
  const [large, setLarge] = useState(false);
  const pictured = paged && d.mimeType === "application/pdf";
  const content = useQuery(`${d.id} ${page} ${d.updatedAt}`, async (signal): Promise<Part> => {
    if (paged) return get<DocumentPage>("/api/knowledge", { id: d.id, page }, signal);
    const around = await get<DocumentPassages>("/api/knowledge", { id: d.id, chunk: page - 1 }, signal);
    return { ...around, text: around.passages.map((p) => p.text).join("\n\n") };
  });
  const quote = page === first ? (passage?.quote ?? "") : "";
  return (
    <section class="stack" aria-label={Words.contents}>
      <div class="row between">
        <h3>{texts.partPageOfLast(paged ? Words.page : Words.passage, page, last)}</h3>
        <div class="actions">
          <Button onClick={() => setPage(page - 1)} disabled={page <= 1}>{Words.previous}</Button>
          <Button onClick={() => setPage(page + 1)} disabled={page >= last}>{Words.next}</Button>
          {pictured && <Button onClick={() => setLarge(!large)}>{large ? Words.fitToWidth : Words.enlarge}</Button>}
        </div>
      </div>
      {pictured
        ? (
          <>
            <Picture of={d} page={page} quote={quote} large={large} passages={content.data?.passages} />
            <details class="fold">
              <summary>{Words.textOfPage}</summary>
              <Loaded query={content}>{(part) => <Text text={part.text} quote={quote} />}</Loaded>
            </details>
          </>
        )
        : <Loaded query={content}>{(part) => <Text text={part.text} quote={quote} seen />}</Loaded>}
    </section>
  );
}

/** The extracted text. If seen is set, the quote is scrolled into view. */
function Text({ text, quote, seen }: { text: string; quote: string; seen?: boolean }) {
  const mark = useRef<HTMLElement>(null);
  const at = findQuote(text, quote);
  useEffect(() => {
    if (seen) mark.current?.scrollIntoView({ block: "center" });
  }, [text, quote]);
  return (
    <div class="read-text" tabIndex={0} role="region" aria-label={Words.extractedText}>
      {text === "" && <span class="quiet">{Words.noText}</span>}
      {at === null ? text : <>{text.slice(0, at[0])}<mark ref={mark}>{text.slice(...at)}</mark>{text.slice(at[1])}</>}
    </div>
  );
}

/** A page of a PDF as a picture. The quote is marked and scrolled into view. */
function Picture({ of: d, page, quote, large, passages }: { of: Document; page: number; quote: string; large: boolean; passages: Passage[] | undefined }) {
  const query = useQuery(`picture ${d.id} ${page} ${d.updatedAt}`, async (signal) =>
    (await get<DocumentPicture>("/api/knowledge", { id: d.id, page, picture: 1 }, signal)).picture);
  if (query.data) return <Sheet key={page} picture={query.data} name={texts.pagePageOfName(page, d.name)} quote={quote} large={large} passages={passages} />;
  if (query.error?.status === 404) return <p class="note warn">{query.error.detail}</p>;
  if (query.error) return <Problem error={query.error} retry={query.reload} />;
  return <div class="page-waiting"><Loading words={Words.loadingThePage} /></div>;
}

function Sheet({ picture, name, quote, large, passages }: { picture: PagePicture; name: string; quote: string; large: boolean; passages: Passage[] | undefined }) {
  const url = useObjectUrl(picture);
  const marks = useMemo(() => {
    const found = findMarks(picture.words, quote);
    return found.length > 0 ? found : passageMarks(passages, quote);
  }, [picture, quote, passages]);
  const first = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    const [mark, frame] = [first.current, first.current?.closest(".page-frame")];
    if (!mark || !frame) return;
    frame.scrollTo(mark.offsetLeft - frame.clientWidth / 2, mark.offsetTop - frame.clientHeight / 2); // scrolls the page in its frame, and not the buttons above it
    mark.scrollIntoView({ block: "nearest" });
  }, [marks, large]);
  return (
    <div class="stack">
      {quote !== "" && <p class="hint">{marks.length > 0 ? Words.citedWordsAreMarked : Words.citedWordsCouldNotBeFound}</p>}
      <div class="page-frame" tabIndex={0} role="region" aria-label={name}>
        <div class={"page-sheet" + (large ? " large" : "")} style={{ aspectRatio: `${picture.width} / ${picture.height}` }}>
          {url !== null && <img src={url} alt={name} />}
          {marks.map((box, i) => <span key={i} ref={i === 0 ? first : undefined} class="page-mark" aria-hidden="true" style={within(box, picture)} />)}
        </div>
      </div>
    </div>
  );
}

/** Returns the position of a box in a picture, as CSS. */
function within(box: Box, { width, height }: PagePicture) {
  const part = (length: number, whole: number) => `${(100 * length) / whole}%`;
  return { left: part(box[0], width), top: part(box[1], height), width: part(box[2] - box[0], width), height: part(box[3] - box[1], height) };
}

/**
 * Returns the box of the passage that contains the quote. It is used for scanned pages, for which
 * the positions of words are unknown.
 */
const passageMarks = (passages: Passage[] | undefined, quote: string): Box[] =>
  (passages ?? []).flatMap((p) => (p.box && findQuote(p.text, quote) !== null ? [p.box] : [])).slice(0, 1);

/** Returns a URL of a picture, valid while the picture is shown. */
function useObjectUrl(picture: PagePicture): string | null {
  const [url, setUrl] = useState<string | null>(null);
  useEffect(() => {
    const bytes = Uint8Array.from(atob(picture.data), (c) => c.charCodeAt(0));
    const made = URL.createObjectURL(new Blob([bytes], { type: picture.mimeType }));
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [picture]);
  return url;
}
