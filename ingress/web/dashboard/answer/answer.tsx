// An agent's answer: its Markdown, its numbered sources, and the files that its run made.
import { Component, type ComponentChildren, type VNode } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { inDemo } from "../api";
import { LiveMarkdown, type Make, type MarkdownOptions } from "../../kit/markdown";
import * as texts from "../texts/answer";
import { Words } from "../texts/answer";
import type { Citation, RunFile, ToolCall } from "../types";
import { Code, make } from "./code";
import { fileAddress, FileLink, Files, filesIn, isImage, Picture } from "./files";
import { sharesPage } from "./samepage";
import { documentHref, SourcePanel } from "./source";

const none: never[] = [];
let closeOther: (() => void) | null = null;

interface Props {
  text: string;
  citations?: Citation[];
  toolCalls?: ToolCall[];
  /** Whether the answer is still being written. */
  streaming?: boolean;
}

/**
 * Renders an answer. A source opens in a panel next to it. If rendering fails, the answer's plain
 * text is shown.
 */
export class Answer extends Component<Props, { broken: boolean }> {
  override state = { broken: false };
  private logged = false;

  static getDerivedStateFromError() {
    return { broken: true };
  }

  override componentDidCatch(error: unknown): void {
    if (!this.logged) console.error("cannot render an answer:", error); // logs one line per answer, although each part that fails causes a call
    this.logged = true;
  }

  override render() {
    if (!this.state.broken) return <Rendered {...this.props} />;
    return <div class="answer plain" dir="auto" aria-busy={this.props.streaming ? "true" : undefined}>{this.props.text}</div>;
  }
}

function Rendered({ text, citations = none, toolCalls = none, streaming = false }: Props) {
  const [open, setOpen] = useSource();
  const files = useMemo(() => toolCalls.flatMap(filesIn), [toolCalls]);
  const images = useMemo(() => new Set<string>(), [files]); // the files that the text itself shows as images
  const levels = headingLevels(text);
  const grown = useMemo(() => new LiveMarkdown<VNode>({ ...markdownOptions(citations, files, images, setOpen), h: rankHeadings(levels, files) }), [citations, files, levels]);
  const nodes = useMemo(() => grown.update(text, streaming), [grown, text, streaming]);
  return (
    <>
      <div class="answer" aria-busy={streaming ? "true" : undefined}>{nodes}</div>
      {!streaming && <Files files={lastVersions(files)} images={lastVersions(files).filter((f) => !images.has(f.id))} />}
      <Sources citations={citations} onOpen={setOpen} />
      {open && <SourcePanel citation={open} number={sourceNumber(open, citations)} onClose={() => setOpen(null)} />}
    </>
  );
}

/** Returns the source that is shown in the panel. All answers on the page share one panel. */
function useSource(): [Citation | null, (citation: Citation | null) => void] {
  const [open, setOpen] = useState<Citation | null>(null);
  const close = useMemo(() => () => setOpen(null), []);
  useEffect(() => () => {
    if (closeOther === close) closeOther = null;
  }, []);
  const choose = useMemo(() => (citation: Citation | null) => {
    if (citation !== null && closeOther !== close) {
      closeOther?.();
      closeOther = close;
    }
    setOpen(citation);
  }, []);
  return [open, choose];
}

/** Returns the heading levels of a text as digits, for example "13". */
const headingLevels = (text: string): string => [...new Set(Array.from(text.matchAll(/^ {0,3}(#{1,6})[ \t]/gm), (m) => String(Math.min(5, m[1]?.length ?? 1))))].sort().join("");

/**
 * Returns a node factory whose headings skip no level: the answer's highest heading level ranks
 * just below the page's title, and the next level just below that. The factory fetches the run's
 * pictures and files, because a plain link cannot send the identity headers.
 */
function rankHeadings(levels: string, files: RunFile[]): Make<VNode> {
  return (tag, props, ...children) => {
    const file = tag === "a" ? files.find((f) => fileAddress(f) === props?.["href"]) : undefined;
    if (file) return <FileLink file={file} />;
    if (tag === "img") return <Picture src={String(props?.["src"])} alt={String(props?.["alt"])} />;
    const level = /^h([2-6])$/.exec(tag)?.[1];
    const rank = level === undefined ? -1 : levels.indexOf(String(Number(level) - 1));
    const shown = props?.["role"] === "region" ? { ...props, role: "group" } : props; // tables in an answer must not be landmarks of the page
    return make(rank < 0 ? tag : `h${Math.min(6, rank + 2)}`, shown, ...children);
  };
}

/** Returns the last version of each file, by name. */
const lastVersions = (files: RunFile[]): RunFile[] => [...new Map(files.map((f) => [f.name, f])).values()];

/** Returns the run's file to which a URL in the answer refers, by id or by name. */
function findFile(files: RunFile[], address: string): RunFile | undefined {
  const id = /file_[0-9a-z]{26}/.exec(address)?.[0];
  if (id !== undefined) return files.findLast((f) => f.id === id);
  let name = address.replace(/^(sandbox|file):/, "").replace(/^\.?\/+(work\/)?/, "");
  try {
    name = decodeURIComponent(name);
  } catch {
    // the name contains no valid percent-encoding
  }
  return files.findLast((f) => f.name === name);
}

function markdownOptions(citations: Citation[], files: RunFile[], images: Set<string>, onOpen: (citation: Citation) => void): Omit<MarkdownOptions<VNode>, "h"> {
  return {
    citations,
    cite: (citation) => <Cite citation={citation} number={sourceNumber(citation, citations)} onOpen={onOpen} />,
    code: (text, language, open) => <Code text={text} language={language} label={language === "" ? Words.code : texts.codeInLanguage(language)} open={open} />,
    image: (address) => {
      const file = findFile(files, address);
      if (!file || !isImage(file) || inDemo()) return null;
      images.add(file.id);
      return fileAddress(file);
    },
    path: (address) => {
      const file = findFile(files, address);
      if (file) return inDemo() ? null : fileAddress(file);
      const cited = citations.find((c) => c.documentId !== null && c.url === address);
      return cited && !inDemo() ? documentHref(cited) : null;
    },
  };
}

/** Returns the ids of the cited sources, in the order of their first citation. */
const citedSources = (citations: Citation[]): number[] => [...new Set(citations.map((c) => c.id))];

/**
 * Returns the number under which an answer shows a source. The numbers of an answer begin with 1,
 * while the ids of sources are unique in a session.
 */
const sourceNumber = (citation: Citation, citations: Citation[]): number => citedSources(citations).indexOf(citation.id) + 1;

interface CiteProps {
  citation: Citation;
  number: number;
  onOpen: (citation: Citation) => void;
}

function Cite({ citation, number, onOpen }: CiteProps) {
  const name = citation.title || citation.url;
  return <button type="button" class="cite" aria-label={texts.sourceNumberTitle(number, name)} title={name} onClick={() => onOpen(citation)}>{number}</button>;
}

/** Lists the sources of an answer. Each source is listed once, in the order of the numbers. */
function Sources({ citations, onOpen }: { citations: Citation[]; onOpen: (citation: Citation) => void }) {
  const each = citedSources(citations).flatMap((id) => citations.find((c) => c.id === id) ?? []);
  if (each.length === 0) return null;
  return (
    <div class="answer-sources">
      <p class="quiet small">{each.length === 1 ? Words.source : Words.sources}</p>
      <ol>
        {each.map((c, i) => (
          <li key={c.id}>
            <button type="button" onClick={() => onOpen(c)}>
              <span class="cite" aria-hidden="true">{i + 1}</span><span class="visually-hidden">{texts.sourceNumber(i + 1)}{" "}</span>
              <span class="source-name">{c.title || c.url}</span>
              {sharesPage(c, each)
                ? <span class="source-quote quiet small">{texts.quoted(c.citedText)}</span>
                : <span class="quiet small">{whence(c)}</span>}
            </button>
          </li>
        ))}
      </ol>
    </div>
  );
}

function whence(citation: Citation): ComponentChildren {
  if (citation.documentId !== null) return citation.page === null ? Words.document : texts.pagePage(citation.page);
  return URL.canParse(citation.url) ? new URL(citation.url).hostname.replace(/^www\./, "") : "";
}
