// A search that shows the passages that an agent would get.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, type ApiError } from "../../api";
import * as texts from "../../texts/knowledge";
import { Words } from "../../texts/knowledge";
import type { FoundList } from "../../types";
import { Button } from "../../ui/button";
import { Curl } from "../../ui/curl";
import { TextField } from "../../ui/field";
import { Problem } from "../../ui/parts";
import type { CitedPassage } from "./contents";

export function Search({ onShow }: { onShow: (id: string, passage: CitedPassage) => void }) {
  const [text, setText] = useState("");
  const [result, setResult] = useState<{ asked: string; found?: FoundList; error?: ApiError }>();
  const ask = async (event: Event) => {
    event.preventDefault();
    const query = text.trim();
    if (query === "") {
      setResult(undefined);
      return;
    }
    await get<FoundList>("/api/knowledge", { query, limit: 5 }).then((found) => setResult({ asked: query, found }), (error: ApiError) => setResult({ asked: query, error }));
  };
  return (
    <section class="sheet stack" aria-label={Words.search}>
      <form role="search" class="search-form" onSubmit={(e) => void ask(e)}>
        <TextField label={Words.searchTheDocuments} hint={Words.findsPassagesThatAgent} type="search" value={text} onChange={setText} maxLength={1000} />
        <Button type="submit" icon="search">{Words.search}</Button>
        <Curl what={Words.searchTheDocuments} request={{ method: "GET", path: "/api/knowledge", params: { query: text.trim() || Words.howLongIsWarranty } }} />
      </form>
      <div aria-live="polite" class="stack search-results">
        {result?.error && <Problem error={result.error} />}
        {result?.found?.without && <p class="small quiet">{Words.searchedByWords}</p>}
        {result?.found && result.found.data.length === 0 && <p>{texts.noPassageMatchesTry(result.asked)}</p>}
        {result?.found && result.found.data.length > 0 && (
          <ol class="found">
            {result.found.data.map((f) => (
              <li key={f.documentId + f.chunk}>
                <p class="small quiet">
                  <button type="button" class="name-button" onClick={() => onShow(f.documentId, { page: f.page, chunk: f.chunk, quote: f.text })}>{f.name}</button>
                  {f.page !== null && texts.pagePage(f.page)}{f.headings.length > 0 && ` · ${f.headings.join(" › ")}`}
                </p>
                <Passage text={f.text} />
              </li>
            ))}
          </ol>
        )}
      </div>
    </section>
  );
}

/** Shows a passage. A long passage is truncated, with an ellipsis below it. */
function Passage({ text }: { text: string }) {
  const words = useRef<HTMLParagraphElement>(null);
  const [cut, setCut] = useState(false);
  useEffect(() => {
    const shown = words.current;
    if (!shown) return;
    const sized = new ResizeObserver(() => setCut(shown.scrollHeight > shown.clientHeight + 1));
    sized.observe(shown);
    return () => sized.disconnect();
  }, [text]);
  return (
    <>
      <p ref={words} class={"passage" + (cut ? " cut" : "")}>{text}</p>
      {cut && <p class="quiet" aria-hidden="true">…</p>}
    </>
  );
}
