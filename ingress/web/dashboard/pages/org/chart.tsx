// Two small SVG plots. For screen readers, they are images, and a table contains the figures.
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import * as texts from "../../texts/chart";
import { Words } from "../../texts/chart";
import { count } from "../../ui/parts";

const width = 480;
const height = 160;
const left = 54;
const bottom = 22;
const maxDates = 4; // maximum number of labels on the horizontal axis
const widestDate = 56; // width of the label of a day, in the larger letters of phones

/**
 * Returns the upper end of an axis: the smallest round number above the values whose half is round,
 * too.
 */
export function roundUp(n: number): number {
  if (n <= 2) return 2;
  const power = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 4, 6, 8, 10].map((f) => f * power).find((f) => f >= n) ?? 10 * power;
}

/** Returns the positions of the labels on the horizontal axis: the first and the last point, and some between them. */
export function labelledPoints(points: number): number[] {
  const n = Math.min(maxDates, points);
  return n < 2 ? [...Array(n).keys()] : Array.from({ length: n }, (_, i) => Math.round((i * (points - 1)) / (n - 1)));
}

interface Axes {
  title: string;
  /** The values and their unit, for example "runs per day". */
  unit: string;
  /** The text that explains why the chart has no data. */
  empty: ComponentChildren;
}

function Frame({ title, unit, empty, none, top, format, labels, legend, says, children }: Axes & {
  none: boolean; top: number; format: (n: number) => string; labels: string[]; legend: string[]; says: string; children: ComponentChildren;
}) {
  const id = useId();
  const y = (share: number) => (height - bottom) * (1 - share) + 8 * share;
  const step = (width - left) / Math.max(1, labels.length);
  return (
    <figure class="chart">
      <figcaption class="row between"><span><strong id={id}>{title}</strong> <span class="small quiet">{unit}</span></span><span class="legend small">{legend.map((name) => <span key={name} class={"key " + name.replaceAll(" ", "-")}>{texts.measures[name] ?? name}</span>)}</span></figcaption>
      <div class="chart-plot">
        <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-labelledby={id} aria-describedby={id + "-says"}>
          <desc id={id + "-says"}>{says}</desc>
          {[0, 0.5, 1].map((share) => (
            <g key={share}>
              <line class="grid" x1={left} x2={width} y1={y(share)} y2={y(share)} />
              <text x={left - 6} y={y(share) + 4} text-anchor="end">{format(top * share)}</text>
            </g>
          ))}
          {labelledPoints(labels.length).map((at) => (
            <text key={at} class={at === 0 || at === labels.length - 1 ? undefined : "middle"} x={left + (at + 0.5) * step} y={height - 4} text-anchor={step >= widestDate ? "middle" : at === 0 ? "start" : at === labels.length - 1 ? "end" : "middle"}>{labels[at]}</text>
          ))}
          {children}
        </svg>
        {none && <p class="chart-empty small"><span>{empty}</span></p>}
      </div>
    </figure>
  );
}

interface BarsProps extends Axes {
  /** The bars. A bar with several parts has a legend. */
  points: { label: string; parts: { name: string; value: number }[] }[];
  /** Formats a value. The default is a whole number. */
  format?: (n: number) => string;
  /** Formats a value of the vertical axis, if the axis needs another format than other values. */
  tick?: (n: number) => string;
  /** The upper end of the axis of an empty chart. */
  typical?: number;
}

export function Bars({ points, format = count, tick = format, typical = 10, ...axes }: BarsProps) {
  const sums = points.map((p) => p.parts.reduce((sum, part) => sum + part.value, 0));
  const max = Math.max(0, ...sums);
  const top = max === 0 ? typical : roundUp(max);
  const names = points[0]?.parts.map((part) => part.name) ?? [];
  const several = names.length > 1;
  const value = (part: { name: string; value: number }) => (several ? texts.amountMeasure(format(part.value), texts.measures[part.name] ?? part.name) : format(part.value));
  const step = (width - left) / Math.max(1, points.length);
  const full = height - bottom - 8;
  return (
    <Frame {...axes} none={max === 0} top={top} format={tick} labels={points.map((p) => p.label)} legend={several ? names : []} says={texts.maximumIs(format(max))}>
      {points.map((p, i) => {
        let below = 0;
        return (
          <g key={p.label}>
            <title>{`${p.label}: ${p.parts.map(value).join(", ")}`}</title>
            <rect class="touch" x={left + i * step} y={8} width={step} height={full} />
            {p.parts.map((part) => {
              const tall = (part.value / top) * full;
              const y = height - bottom - below - tall;
              below += tall;
              return tall > 0 && <rect key={part.name} class={"part " + part.name} x={left + i * step + step * 0.12} width={step * 0.76} y={y} height={Math.max(1, tall)} />;
            })}
          </g>
        );
      })}
    </Frame>
  );
}

export function Lines({ points, format, ...axes }: Axes & { points: { label: string; values: Record<string, number | null> }[]; format: (n: number) => string }) {
  const names = Object.keys(points[0]?.values ?? {});
  const max = Math.max(0, ...points.flatMap((p) => Object.values(p.values).map((v) => v ?? 0)));
  const top = max === 0 ? 10_000 : roundUp(max); // the axis of an empty chart ends at a typical value
  const step = (width - left) / Math.max(1, points.length);
  const point = (value: number, i: number) => [left + (i + 0.5) * step, height - bottom - (value / top) * (height - bottom - 8)] as const;
  return (
    <Frame {...axes} none={max === 0} top={top} format={format} labels={points.map((p) => p.label)} legend={names} says={max === 0 ? Words.noRunFinished : texts.longestIsFormat(format(max))}>
      {names.map((name) => {
        const known = points.flatMap((p, i) => {
          const value = p.values[name];
          return value === null || value === undefined ? [] : [{ label: p.label, value, at: point(value, i) }];
        });
        return (
          <g key={name} class={"line " + name.replaceAll(" ", "-")}>
            <polyline points={known.map((k) => k.at.join(",")).join(" ")} />
            {known.map((k) => <circle key={k.label} cx={k.at[0]} cy={k.at[1]} r="3"><title>{texts.labelNameInFormat(k.label, texts.measures[name] ?? name, format(k.value))}</title></circle>)}
          </g>
        );
      })}
    </Frame>
  );
}
