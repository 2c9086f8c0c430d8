// When a message was not accepted, or its run came to nothing: why, and what to do.
import { inDemo, type ApiError } from "../api";
import { Button } from "../ui/button";
import { Time } from "../ui/parts";
import { useCountdown } from "./limit";
import type { ChatSession } from "./session";
import type { Turn } from "./turn";

const short = 60; // seconds: whoever is to wait longer may ask before, and the service decides anew

/** A message that nobody accepted, with the way to send it again. */
export function Refused({ turn, session }: { turn: Turn; session: ChatSession }) {
  const problem = turn.problem;
  const rest = useCountdown(turn.againAt);
  if (!problem) return null;
  const long = (problem.retryAfter ?? 0) > short;
  const held = rest > 0 && !long;
  const again = problem.status === 0 || problem.status === 429 || problem.status >= 500;
  return (
    <div class="problem stack" role="alert">
      <div>
        <p><strong>{headOf(problem)}</strong></p>
        <p>{adviceOf(problem)}</p>
        {problem.errors.map((e) => <p key={e.field + e.code}><code>{e.field}</code> {e.message}</p>)}
        {long && rest > 0 && turn.againAt !== null && <p>This ends <Time at={new Date(turn.againAt).toISOString()} />. Sent before, it may be refused again.</p>}
      </div>
      <div class="actions">
        {again && <Button onClick={() => session.resend(turn)} disabled={held}>{held ? `Send again in ${rest} s` : "Send again"}</Button>}
        {turn.runId === null && <Button look="bare" onClick={() => session.drop(turn)}>Discard the message</Button>}
        {inDemo() && problem.status === 429 && <SignUp />}
      </div>
      {problem.requestId && <p class="small quiet">Request <code>{problem.requestId}</code></p>}
    </div>
  );
}

function SignUp() {
  return <a class="button" href="/signup">Sign up for more</a>;
}

function headOf(problem: ApiError): string {
  if (problem.status === 429 && inDemo()) return problem.code === "budget_exceeded" ? "The demo's budget is used up for now" : "You have come to the demo's limit";
  switch (problem.code) {
    case "rate_limited": return "Too many requests in this minute";
    case "budget_exceeded": return "The budget is used up";
    case "overloaded": return "The service is busy";
    case "caller_not_allowed": return "This agent does not talk with people";
    case "not_found": return "This agent is gone";
    case "erased": return "This message was erased";
    case "speaking_ended": return "This was not answered";
    default: return problem.status >= 500 || problem.status === 0 ? "The service cannot answer just now" : "The message was not accepted";
  }
}

function adviceOf(problem: ApiError): string {
  if (problem.status === 429 && inDemo()) {
    return "The demo takes a few requests a minute from each visitor. Your message was not sent; send it again when the time is over. "
      + "With an account of your own there is far more.";
  }
  switch (problem.code) {
    case "caller_not_allowed": return "Allow the caller “user” on the agent's page, under who may run it.";
    case "not_found": return "It was deleted. Its finished runs can still be read.";
    case "overloaded": case "unavailable": return "Nothing was accepted, and nothing is lost. Send the message again in a moment.";
    case "budget_exceeded": return problem.detail.replace(/; it begins anew at \S+ \(bud_\w+\)$/, "."); // when is told below
    default: return problem.detail;
  }
}

const advice: Record<string, string> = {
  model_not_available: "Choose another model on the agent's page, or have its provider set up.",
  model_unavailable: "The provider could not be reached. Ask again later, or give the agent a fallback model.",
  model_rate_limited: "The provider wants fewer requests. Ask again later, or give the agent a fallback model.",
  model_quota_exceeded: "Whoever runs the service has to look at its account at the provider.",
  context_too_long: "Send a shorter message, or begin a new session.",
  action_expired: "Nobody decided in time. Ask again if it is still wanted.",
};

/** A run that came to no answer: why. */
export function Ended({ turn, onAsk }: { turn: Turn; onAsk: (() => void) | undefined }) {
  const error = turn.run?.error;
  const heads = { failed: "The run failed", timed_out: "The run took too long", cancelled: "The run was cancelled" } as const;
  const head = turn.status === "failed" || turn.status === "timed_out" ? heads[turn.status] : heads.cancelled;
  const quiet = turn.status === "cancelled";
  return (
    <div class={quiet ? "turn-ended" : "problem"}>
      <p>{quiet ? head + "." : <strong>{head}</strong>}</p>
      {error && <p>{error.message} <span class="quiet code">{error.code}</span></p>}
      {error && advice[error.code] && <p>{advice[error.code]}</p>}
      {onAsk && <div class="actions"><Button onClick={onAsk}>Ask again</Button></div>}
    </div>
  );
}
