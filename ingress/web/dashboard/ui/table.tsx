import type { ComponentChildren } from "preact";

export interface Column<T> {
  head: string;
  cell: (row: T) => ComponentChildren;
  /** Aligns the cells at their end, for numbers. */
  end?: boolean;
  tight?: boolean;
  /** The header is for screen readers only, for example above buttons. */
  silent?: boolean;
}

/** A table whose first column names its rows. On narrow screens each row becomes a list. */
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
            <tr key={id(row)}>
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
