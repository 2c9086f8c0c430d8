import { useLimit } from "../../chat/limit";

/** What the demo is, and where it ends. */
export function DemoBar() {
  const limit = useLimit();
  const most = limit === null ? "a few requests a minute" : limit.windowSeconds === 60 ? `${limit.most} requests a minute` : `${limit.most} requests in ${limit.windowSeconds} s`;
  return (
    <section class="demo-bar" aria-label="Demo">
      <p>
        <strong>This is the demo.</strong> You talk with templates, {most}. Nobody else sees what you say, and it is kept for a day.
        {" "}<a href="/signup">Sign up</a> to make agents of your own, give them documents, and run them by a schedule.
      </p>
    </section>
  );
}
