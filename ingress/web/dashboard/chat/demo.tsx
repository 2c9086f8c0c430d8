// The demo's rate limit, as visitors see it.
import { inDemo } from "../api";
import { useCountdown, useLimit } from "./limit";

/** Shows, for example, "7 of 10 requests left in this minute". */
export function DemoLimit() {
  const limit = useLimit();
  const untilMore = useCountdown(limit?.more ?? null);
  const untilAll = useCountdown(limit?.all ?? null);
  if (!inDemo() || limit === null) return null;
  const span = limit.windowSeconds === 60 ? "in this minute" : `in ${limit.windowSeconds} s`;
  const left = untilAll === 0 ? limit.most : limit.left;
  if (left === 0 && untilMore === 0) return <span class="demo-limit">You can send requests again</span>;
  return <span class={"demo-limit number" + (left === 0 ? " out" : "")}>{left} of {limit.most} requests left {span}</span>;
}
