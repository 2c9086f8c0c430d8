import { useContext } from "preact/hooks";
import { useLimit } from "../../chat/limit";
import { BootContext } from "../../state";

/** What the demo is, and where it ends. */
export function DemoBar() {
  const boot = useContext(BootContext);
  const limit = useLimit();
  const most = limit === null ? "a few requests a minute" : limit.windowSeconds === 60 ? `${limit.most} requests a minute` : `${limit.most} requests in ${limit.windowSeconds} s`;
  return (
    <section class="demo-bar" aria-label="Demo">
      <p>
        <strong>This is the demo.</strong> You talk with templates, {most}. Nobody else sees what you say, and it is kept for a day.
        {" "}{boot.signup
          ? <><a href="/signup">Sign up</a> to make agents of your own, give them documents, and run them by a schedule.</>
          : <>With an account you make agents of your own, give them documents, and run them by a schedule. <a href="/login">Sign in</a></>}
      </p>
    </section>
  );
}
