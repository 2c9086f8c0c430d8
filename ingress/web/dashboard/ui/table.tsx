import type { ComponentChildren } from "preact";

export interface Column<T> {
  head: string;
  cell: (row: T) => ComponentChildren;
  /** Whether the cells are aligned at their end, like numbers. */
  end?: boolean;
  tight?: boolean;
  /** Whether the header is only for screen readers, for example above buttons. */
  silent?: boolean;
}

/**
 * When a row is clicked, uses the link or button in its header cell. Ignores clicks on other
 * controls and in dialogs, and clicks that select text.
 */
export function openRow(event: MouseEvent): void {
  const row = event.currentTarget;
  const at = event.target;
  if (!(row instanceof Element) || !(at instanceof Element)) return;
  if (at.closest("a, button, input, select, label, summary, dialog") || getSelection()?.isCollapsed === false) return;
  const opens = row.querySelector<HTMLElement>("th a, th button");
  if (opens instanceof HTMLAnchorElement && (event.metaKey || event.ctrlKey)) open(opens.href, "_blank", "noopener");
  else opens?.click();
}

/**
 * A table whose first column names its rows. On narrow screens each row becomes a list. If the
 * first cell of a row has a link or a button, a click anywhere in the row activates that link or
 * button.
 */
export function Table<T>({ caption, columns, rows, id }: { caption: string; columns: Column<T>[]; rows: T[]; id: (row: T) => string }) {
  const of = (c: Column<T>) => [c.end && "end", c.tight && "tight"].filter(Boolean).join(" ") || undefined;
  return (
    <div class="table-box folds">
      <table>
        <caption class="visually-hidden">{caption}</caption>
        <thead>
          <tr>{columns.map((c) => <th key={c.head} scope="col" class={of(c)}>{c.silent ? <span class="visually-hidden">{c.head}</span> : c.head}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={id(row)} onClick={openRow}>
              {columns.map((c, i) => i === 0
                ? <th key={c.head} scope="row" class={of(c)}>{c.cell(row)}</th>
                : <td key={c.head} class={of(c)} data-label={c.silent ? undefined : c.head}>{c.cell(row)}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
