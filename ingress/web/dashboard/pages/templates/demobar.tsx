import { useLimit } from "../../chat/limit";

/** Explains the demo and its limits. */
export function DemoBar() {
  const limit = useLimit();
  const most = limit === null ? "a few requests per minute" : limit.windowSeconds === 60 ? `${limit.most} requests per minute` : `${limit.most} requests in ${limit.windowSeconds} s`;
  return (
    <section class="demo-bar" aria-label="Demo">
      <p>
        <strong>This is the demo.</strong> You can chat with templates, with up to {most}. Your messages are private, and stored for one day.
        {" "}<a href="/signup">Sign up</a> to create your own agents, give them documents and run them on a schedule.
      </p>
    </section>
  );
}
