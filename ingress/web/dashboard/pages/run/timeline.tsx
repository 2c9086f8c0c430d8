// The timeline of a run, as a chart and as a table.
import { useRef, useState } from "preact/hooks";
import * as texts from "../../texts/run";
import { Words } from "../../texts/run";
import { statuses, wordFor } from "../../texts/values";
import type { Run, RunStatus, Timeline as Trace } from "../../types";
import { Button } from "../../ui/button";
import { duration, Section, Status } from "../../ui/parts";
import { Table } from "../../ui/table";
import { useTick } from "../runs/times";
import { Inspector } from "./inspector";
import { newScale, type Scale } from "./scale";
import { after, clock, exact, roundDurations, formatMoments, newParts, describePart, timeSpent, type Part } from "./spans";

const listed = new Intl.ListFormat("en-GB");

export function Timeline({ trace, run }: { trace: Trace; run: Run }) {
  const [table, setTable] = useState(false);
  const [whole, setWhole] = useState(false);
  const open = trace.spans.some((s) => s.finishedAt === null);
  useTick(open);
  const now = Date.now();
  const parts = newParts(trace, now, run.toolCalls);
  if (parts.length === 0) return null;
  const scale = newScale(trace, now, whole);
  const cut = scale.stretches.filter((s) => s.cut);
  return (
    <Section title={Words.timeline} actions={
      <>
        {(cut.length > 0 || whole) && !table && <Button look="bare" pressed={whole} onClick={() => setWhole(!whole)}>{Words.trueToScale}</Button>}
        <div class="choice" role="group" aria-label={Words.showTimelineAs}>
          <Button look="bare" pressed={!table} onClick={() => setTable(false)}>{Words.chart}</Button>
          <Button look="bare" pressed={table} onClick={() => setTable(true)}>{Words.table}</Button>
        </div>
      </>
    }>
      {table ? <div class="parts-table"><PartsTable parts={parts} /></div> : <Chart parts={parts} scale={scale} trace={trace} run={run} />}
      {!table && cut.length > 0 && (
        <p class="hint">
          {texts.stripedPartIsLonger(cut.length, listed.format(cut.map((s) => duration(s.to - s.from))))}
        </p>
      )}
      <p class="quiet small">{summary(parts, scale, run.status, open)}</p>
    </Section>
  );
}

const outcomes: Partial<Record<RunStatus, string>> = { completed: Words.wasAnswered, failed: Words.failed, cancelled: Words.wasCancelled, timed_out: Words.timedOut };

/** Describes where the time of the run was spent. */
function summary(parts: Part[], scale: Scale, status: RunStatus, open: boolean): string {
  const { queue, turn, tool, wait, client, lost } = timeSpent(parts);
  const kinds = ([[Words.waitingForAWorker, queue], [Words.inTheModel, turn], [Words.inTools, tool], [Words.waitingForAPerson, wait], [Words.waitingForTheClient, client], [Words.lostWithWorker, lost]] as const).filter(([, ms]) => ms > 0);
  const shown = roundDurations(scale.end, kinds.map(([what, took]) => ({ took, fixed: what === Words.waitingForAWorker })));
  const words = kinds.map(([what], i) => `${duration(shown[i] ?? 0)} ${what}`);
  const whole = open ? texts.endSoFar(duration(scale.end)) : texts.fromRequestUntilRun(duration(scale.end), outcomes[status] ?? Words.ended);
  return words.length === 0 ? `${whole}.` : `${whole}: ${words.join(", ")}.`;
}

function Chart({ parts, scale, trace, run }: { parts: Part[]; scale: Scale; trace: Trace; run: Run }) {
  const [chosen, setChosen] = useState<string | null>(null); // the part that is hovered or focused
  const [opened, setOpened] = useState<string | null>(null); // the part that was clicked
  const [at, setAt] = useState(0);
  const list = useRef<HTMLOListElement>(null);
  const current = Math.min(at, parts.length - 1);
  const move = (event: KeyboardEvent) => {
    const to = { ArrowDown: current + 1, ArrowUp: current - 1, Home: 0, End: parts.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(parts.length - 1, to));
    setAt(next);
    list.current?.querySelectorAll("button")[next]?.focus();
  };
  const shown = parts.find((p) => p.key === chosen);
  const inspected = parts.find((p) => p.key === opened);
  const labels = tickLabels(scale, inspected !== undefined);
  return (
    <div class={"timeline" + (inspected ? " inspecting" : "")} onMouseLeave={() => setChosen(null)}>
      <div>
      <Axis scale={scale} labels={labels} />
      <ol ref={list} onKeyDown={move}>
        {parts.map((part, i) => (
          <li key={part.key} class={part.within ? "within" : undefined}>
            <button type="button" tabIndex={i === current ? 0 : -1} aria-expanded={part.key === opened}
              onFocus={() => { setAt(i); setChosen(part.key); }} onMouseEnter={() => setChosen(part.key)} onClick={() => setOpened(part.key === opened ? null : part.key)}>
              <span class="part-name">{part.name}</span>
              <Track part={part} scale={scale} labels={labels} />
              <span class="part-took">{duration(part.shown)}</span>
              <span class="visually-hidden">{describePart(part)}</span>
              {part.why && <span class="part-why">{part.why}</span>}
            </button>
          </li>
        ))}
      </ol>
      {!inspected && <Detail part={shown} />}
      </div>
      {inspected && <Inspector part={inspected} trace={trace} run={run} close={() => setOpened(null)} />}
    </div>
  );
}

const percent = (share: number): string => `${(share * 100).toFixed(3)}%`;

const lastWords = 0.85; // share of the width; labels that begin further to the right would leave the axis on a narrow screen

/**
 * Returns the labels of the ticks, with their position as CSS. A label begins at its tick, and near the
 * end of the axis it ends there. Ticks whose labels would touch another label are omitted.
 */
export function tickLabels({ ticks }: Pick<Scale, "ticks">, narrow: boolean) {
  const moments = formatMoments(ticks.map((tick) => tick.ms));
  let free = 0;
  return ticks.flatMap(({ at }, i) => {
    const words = moments[i] ?? "";
    const width = words.length * (narrow ? 0.05 : 0.0105);
    const late = at > lastWords;
    if (at - (late ? width : 0) < free) return [];
    free = at + 0.02 + (late ? 0 : width);
    return [{ at, words, style: late ? { right: percent(1 - at) } : { left: percent(at) } }];
  });
}

type Label = ReturnType<typeof tickLabels>[number];

function Axis({ scale, labels }: { scale: Scale; labels: Label[] }) {
  return (
    <div class="axis" aria-hidden="true">
      <span />
      <div class="axis-line">
        {labels.map(({ at, words, style }) => <span key={at} style={style}>{words}</span>)}
      </div>
      <strong class="part-took">{duration(scale.end)}</strong>
    </div>
  );
}

/** The bar of a part, on top of the shortened stretches. */
function Track({ part, scale, labels }: { part: Part; scale: Scale; labels: Label[] }) {
  const left = scale.position(part.from);
  const width = scale.position(part.from + part.took) - left;
  return (
    <span class="track">
      {labels.map(({ at }) => <i key={at} class="tick" style={{ left: percent(at) }} />)}
      {scale.stretches.filter((s) => s.cut).map((s) => <i key={s.from} class="cut" style={{ left: percent(s.at), width: percent(s.width) }} />)}
      <i class={`bar-${part.span.kind} is-${part.span.status}`} style={{ left: `min(${percent(left)}, 100% - 3px)`, width: `max(3px, ${percent(width)})` }} />
    </span>
  );
}

/**
 * Shows exact times and numbers for the part that is hovered or focused. For screen readers, the
 * part's button contains the same information.
 */
function Detail({ part }: { part: Part | undefined }) {
  if (!part) return <div class="detail quiet" aria-hidden="true">{Words.pointAtPart}</div>;
  const { span } = part;
  return (
    <div class="detail shown" aria-hidden="true">
      <span><strong>{part.name}</strong> {wordFor(statuses, part.status)} · {duration(part.shown)}</span>
      <span class="quiet">{exact.format(part.at)} – {span.finishedAt === null ? Words.now : clock.format(part.at + part.took)}</span>
      {part.notes.map((note) => <span key={note}>{note}</span>)}
    </div>
  );
}

function PartsTable({ parts }: { parts: Part[] }) {
  return (
    <Table caption={Words.partsOfRun} rows={parts} id={(p) => p.key} columns={[
      { head: Words.part, cell: (p) => <span class={p.within ? "part-within" : undefined}>{p.name}</span> },
      { head: Words.attempt, cell: (p) => p.span.attempt, end: true },
      { head: Words.status, cell: (p) => <Status of={p.status} /> },
      { head: Words.from, cell: (p) => <span title={exact.format(p.at)}>{after(p.from)}</span>, end: true },
      { head: Words.took, cell: (p) => duration(p.shown), end: true },
      { head: Words.notes, cell: (p) => p.notes.join(" · ") },
    ]} />
  );
}
