// The demo's rate limit, read from the headers of its responses.
import { useEffect, useState } from "preact/hooks";
import { keepLimit, keptLimit, type Limit } from "./kept";

let known: Limit | null = keptLimit();
const changed = new EventTarget();

const numberIn = (header: string, name: string): number | null => {
  const found = new RegExp(`;\\s*${name}=(\\d+)`).exec(header);
  return found?.[1] === undefined ? null : Number(found[1]);
};

/** Reads the demo's rate limit from the headers of a response, if they contain it. */
export function noteLimit(headers: Headers): void {
  const left = numberIn(headers.get("ratelimit") ?? "", "r");
  const policy = headers.get("ratelimit-policy") ?? "";
  if (left === null) return;

  const windowSeconds = numberIn(policy, "w") ?? 60;
  const more = Date.now() + (numberIn(headers.get("ratelimit") ?? "", "t") ?? windowSeconds) * 1000;

  known = { left, most: numberIn(policy, "q") ?? Math.max(left, known?.most ?? left), windowSeconds, more, all: Date.now() + windowSeconds * 1000 };
  keepLimit(known);
  changed.dispatchEvent(new Event("change"));
}

/**
 * Returns the demo's rate limit according to the last response, or null before the first response.
 */
export function useLimit(): Limit | null {
  const [, redraw] = useState(0);
  useEffect(() => {
    const again = () => redraw((n) => n + 1);
    changed.addEventListener("change", again);
    return () => changed.removeEventListener("change", again);
  }, []);
  return known;
}

/** Returns the whole seconds until a time. The value counts down to 0. */
export function useCountdown(until: number | null): number {
  const rest = () => (until === null ? 0 : Math.max(0, Math.ceil((until - Date.now()) / 1000)));
  const [seconds, setSeconds] = useState(rest);
  useEffect(() => {
    setSeconds(rest());
    if (until === null) return;
    const timer = setInterval(() => setSeconds(rest()), 500);
    return () => clearInterval(timer);
  }, [until]);
  return seconds;
}
