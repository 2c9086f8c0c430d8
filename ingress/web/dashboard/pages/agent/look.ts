// The chosen look of the widget of an agent. The look is a part of the code to paste. The browser
// stores it, so that it is the same after a reload. The service does not store it.
import { useState } from "preact/hooks";
import type { Look } from "./examples";

const plain: Look = { title: "", greeting: "", accent: "", position: "", scheme: "" };
const looks = new Map<string, Look>(); // the looks by agent; they survive a change of the tab even if the browser blocks its storage

const keyFor = (agent: string): string => `parley.widget-look.${agent}`;

/** Returns the look that this browser has stored. Ignores values that are not texts. */
function storedLook(agent: string): Look {
  try {
    const stored = JSON.parse(localStorage.getItem(keyFor(agent)) ?? "{}") as Record<string, unknown>;
    return Object.fromEntries(Object.entries(plain).map(([name, value]) => [name, typeof stored[name] === "string" ? stored[name] : value])) as unknown as Look;
  } catch {
    return plain; // the browser blocks storage, or another program has changed the value
  }
}

function storeLook(agent: string, look: Look): void {
  looks.set(agent, look);
  try {
    if (Object.values(look).every((value) => value === "")) localStorage.removeItem(keyFor(agent));
    else localStorage.setItem(keyFor(agent), JSON.stringify(look));
  } catch {
    // the browser blocks its storage: the look is lost with a reload
  }
}

/** Returns the chosen look of an agent's widget, and a function that changes it. */
export function useLook(agent: string): [Look, (change: Partial<Look>) => void] {
  const [look, setLook] = useState(() => looks.get(agent) ?? storedLook(agent));
  const set = (change: Partial<Look>) => {
    const next = { ...look, ...change };
    storeLook(agent, next);
    setLook(next);
  };
  return [look, set];
}
