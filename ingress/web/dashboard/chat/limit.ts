// What the demo lets a visitor do in a minute, as its answers say.
import { useEffect, useState } from "preact/hooks";
import { keepLimit, keptLimit, type Limit } from "./kept";

let known: Limit | null = keptLimit();
const changed = new EventTarget();

const numberIn = (header: string, name: string): number | null => {
  const found = new RegExp(`;\\s*${name}=(\\d+)`).exec(header);
  return found?.[1] === undefined ? null : Number(found[1]);
};

/** Takes the limit from an answer's headers, if they tell of one. */
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

/** The limit as the last answer told it; null before the first one. */
export function useLimit(): Limit | null {
  const [, tell] = useState(0);
  useEffect(() => {
    const again = () => tell((n) => n + 1);
    changed.addEventListener("change", again);
    return () => changed.removeEventListener("change", again);
  }, []);
  return known;
}

/** Seconds until a time, counted down; 0 once it has come. */
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
