import { useLimit } from "../../chat/limit";
import * as texts from "../../texts/templates";
import { Words } from "../../texts/templates";

/** Explains the demo and its limits. */
export function DemoBar() {
  const limit = useLimit();
  const limitWords = limit === null ? Words.fewRequestsPerMinute : limit.windowSeconds === 60 ? texts.maxRequestsPerMinute(limit.most) : texts.maxRequestsInWindowSeconds(limit.most, limit.windowSeconds);
  return (
    <section class="demo-bar" aria-label={Words.demo}>
      <p>
        {texts.thisIsDemoYou(limitWords)}
      </p>
    </section>
  );
}
