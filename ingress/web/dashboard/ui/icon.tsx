// The icons, drawn with one stroke on a grid of 20 by 20 units. They are hidden from screen
// readers, because each icon has a text next to it.
const paths = {
  home: "M3.5 9.5L10 4l6.5 5.5M5.5 8.5V16h9V8.5M8.5 16v-4h3v4",
  inbox: "M3.5 11.5L5.5 5h9l2 6.5V15h-13zM3.5 11.5H7.5a2.5 2.5 0 0 0 5 0h4",
  agents: "M4 5.5A1.5 1.5 0 0 1 5.5 4h9A1.5 1.5 0 0 1 16 5.5v6a1.5 1.5 0 0 1-1.5 1.5H9l-3.5 3v-3A1.5 1.5 0 0 1 4 11.5zM8 8.5h4",
  templates: "M4 4h5v5H4zM11 4h5v5h-5zM4 11h5v5H4zM13.5 11v5M11 13.5h5",
  knowledge: "M5 4h7l3 3v9H5zM12 4v3h3M7.5 10h5M7.5 13h5",
  runs: "M4 5h4M4 10h9M4 15h6M12 5h4M16 10h0M13 15h3",
  automations: "M10 4a6 6 0 1 0 6 6M10 6.5V10l2.5 1.5M13 4h3v3",
  org: "M4 16V6l5-2v12M9 16V8l7 2v6M3 16h14M12 12.5h1",
  curl: "M4.5 6.5l3.5 3.5-3.5 3.5M10 14h5.5",
  copy: "M7 7h8v9H7zM5 13V4h7",
  check: "M4.5 10.5l3.5 3.5 7.5-8",
  close: "M5 5l10 10M15 5L5 15",
  plus: "M10 4v12M4 10h12",
  send: "M4 10l12-6-4 12-2.5-4.5z",
  stop: "M6 6h8v8H6z",
  out: "M8 4H5v12h3M11 7l3 3-3 3M14 10H7.5",
  key: "M7.5 9a3.5 3.5 0 1 1 0 7 3.5 3.5 0 0 1 0-7zM10 10l6-6M13.5 6.5l2 2",
  file: "M5 4h7l3 3v9H5zM12 4v3h3",
  upload: "M10 13V4M6.5 7.5L10 4l3.5 3.5M4 13v3h12v-3",
  tool: "M12.5 4.2a3.5 3.5 0 0 0-4 4.6L4 13.3 6.7 16l4.5-4.5a3.5 3.5 0 0 0 4.6-4l-2.2 2.2-2.3-.8-.8-2.3z",
  trash: "M4.5 6h11M8 6V4h4v2M6 6l.7 10h6.6L14 6",
  search: "M9 4a5 5 0 1 1 0 10A5 5 0 0 1 9 4zM12.8 12.8L16 16",
  down: "M6 8l4 4 4-4",
  up: "M6 12l4-4 4 4",
  menu: "M4 6h12M4 10h12M4 14h12",
  link: "M8.5 11.5l3-3M7 9L5.3 10.7a2.6 2.6 0 0 0 3.7 3.7L10.7 12.7M13 11l1.7-1.7a2.6 2.6 0 0 0-3.7-3.7L9.3 7.3",
  widget: "M3.5 4.5h13v9h-13zM12 10.5h5.5v6H12z",
  voice: "M10 4a2 2 0 0 1 2 2v4a2 2 0 0 1-4 0V6a2 2 0 0 1 2-2zM5.5 10a4.5 4.5 0 0 0 9 0M10 14.5V17",
  muted: "M8 9V6a2 2 0 0 1 4 0v3M12 11a2 2 0 0 1-3.4 1M5.5 10a4.5 4.5 0 0 0 7 3.7M14.5 10a4.5 4.5 0 0 1-.3 1.6M10 14.5V17M4 4l12 12",
  edit: "M4 16l.8-3.3L13 4.5l2.5 2.5-8.2 8.2z",
  warn: "M10 4l7 12H3zM10 9v3.5M10 14.3v.2",
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg viewBox="0 0 20 20" width="18" height="18" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
      <path d={paths[name]} />
    </svg>
  );
}

/** The logo: two people who speak in turn. */
export function Mark() {
  return (
    <svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2" stroke-linejoin="round" aria-hidden="true">
      <path d="M3 4h11v8H8l-3 3v-3H3z" />
      <path d="M17.5 9H21v8h-2v3l-3-3h-5v-2" />
    </svg>
  );
}
