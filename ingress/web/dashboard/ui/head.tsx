// Buttons that a part of a page shows in the page's header, beside the title.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";

let shown: ComponentChildren = null;
const changes = new EventTarget();

function show(buttons: ComponentChildren): void {
  shown = buttons;
  changes.dispatchEvent(new Event("change"));
}

/** Shows buttons in the header of the page while the calling component is mounted. */
export function useHeadButtons(buttons: ComponentChildren): void {
  useLayoutEffect(() => show(buttons));
  useLayoutEffect(() => () => show(null), []);
}

/** The part of the header that contains the buttons. */
export function HeadButtons() {
  const [, draw] = useState(0);
  useLayoutEffect(() => {
    const again = () => draw((n) => n + 1);
    again(); // the buttons may have been set before this component was mounted
    changes.addEventListener("change", again);
    return () => changes.removeEventListener("change", again);
  }, []);
  return shown ? <div class="head-buttons">{shown}</div> : null;
}
