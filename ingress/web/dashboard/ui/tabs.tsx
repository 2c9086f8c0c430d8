// Tabs that show one part of a page at a time.
import type { ComponentChildren } from "preact";
import { useId, useRef } from "preact/hooks";

export interface Tab {
  id: string;
  title: string;
}

/** Shows a list of tabs, and the panel of the selected one. The arrow keys select the next or the previous tab. */
export function Tabs<T extends Tab>({ label, tabs, selected, onSelect, children }: {
  label: string; tabs: readonly T[]; selected: string; onSelect: (id: string) => void; children: (tab: T) => ComponentChildren;
}) {
  const list = useRef<HTMLDivElement>(null);
  const id = useId();
  const shown = Math.max(0, tabs.findIndex((t) => t.id === selected));
  const move = (event: KeyboardEvent) => {
    const n = tabs.length;
    const to = { ArrowRight: (shown + 1) % n, ArrowLeft: (shown + n - 1) % n, Home: 0, End: n - 1 }[event.key];
    const tab = to === undefined ? undefined : tabs[to];
    if (to === undefined || !tab) return;
    event.preventDefault();
    onSelect(tab.id);
    list.current?.querySelectorAll("button")[to]?.focus();
  };
  const tab = tabs[shown];
  return (
    <div>
      <div class="tabs" role="tablist" aria-label={label} ref={list} onKeyDown={move}>
        {tabs.map((t, i) => (
          <button key={t.id} type="button" role="tab" id={id + t.id} aria-selected={i === shown ? "true" : "false"} aria-controls={id + "panel"}
            tabIndex={i === shown ? 0 : -1} onClick={() => onSelect(t.id)}>
            {t.title}
          </button>
        ))}
      </div>
      {tab && <div class="stack" role="tabpanel" id={id + "panel"} aria-labelledby={id + tab.id}>{children(tab)}</div>}
    </div>
  );
}
