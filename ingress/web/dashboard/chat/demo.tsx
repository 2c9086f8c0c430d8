// The demo's rate limit, as visitors see it.
import { inDemo } from "../api";
import * as texts from "../texts/chat";
import { Words } from "../texts/chat";
import { useCountdown, useLimit } from "./limit";

/** Shows, for example, "7 of 10 requests left in this minute". */
export function DemoLimit() {
  const limit = useLimit();
  const untilMore = useCountdown(limit?.more ?? null);
  const untilAll = useCountdown(limit?.all ?? null);
  if (!inDemo() || limit === null) return null;
  const span = limit.windowSeconds === 60 ? Words.inThisMinute : texts.inSeconds(limit.windowSeconds);
  const left = untilAll === 0 ? limit.most : limit.left;
  if (left === 0 && untilMore === 0) return <span class="demo-limit">{Words.youCanSendRequests}</span>;
  return <span class={"demo-limit number" + (left === 0 ? " out" : "")}>{texts.leftOfMaxRequests(left, limit.most, span)}</span>;
}
