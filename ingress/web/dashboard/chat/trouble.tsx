// Messages for a refused message and for a run without an answer: the reason, and the next step.
import { inDemo, type ApiError } from "../api";
import { useMay } from "../state";
import { Button } from "../ui/button";
import { Time } from "../ui/parts";
import { useCountdown } from "./limit";
import type { ChatSession } from "./session";
import type { Target } from "./target";
import type { Turn } from "./turn";

const short = 60; // seconds: for a longer wait the button stays enabled, because the service may accept an earlier retry

/** A message that was refused, with a button that sends it again. */
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
        <p>{adviceOf(problem)} {problem.code === "caller_not_allowed" && <SettingsLink agentId={"agentId" in session.target ? session.target.agentId : null} part="callers" />}{problem.code === "budget_exceeded" && <RaiseBudget detail={problem.detail} />}</p>
        {problem.errors.map((e) => <p key={e.field + e.code}><code>{e.field}</code> {e.message}</p>)}
        {long && rest > 0 && turn.againAt !== null && <p>The limit resets <Time at={new Date(turn.againAt).toISOString()} />. Before that, the message may be refused again.</p>}
      </div>
      <div class="actions">
        {again && <Button onClick={() => session.resend(turn)} disabled={held}>{held ? `Send again in ${rest} s` : "Send again"}</Button>}
        {turn.runId === null && <Button look="bare" onClick={() => session.drop(turn)}>Discard message</Button>}
        {inDemo() && problem.status === 429 && <SignUp />}
      </div>
      {problem.requestId && <p class="small quiet">Request <code>{problem.requestId}</code></p>}
    </div>
  );
}

function SignUp() {
  return <a class="button" href="/signup">Sign up</a>;
}

function headOf(problem: ApiError): string {
  if (problem.status === 429 && inDemo()) return problem.code === "budget_exceeded" ? "Demo budget used up" : "Demo limit reached";
  switch (problem.code) {
    case "rate_limited": return "Too many requests this minute";
    case "budget_exceeded": return "Budget used up";
    case "overloaded": return "Service busy";
    case "caller_not_allowed": return "People may not chat with this agent";
    case "not_found": return "Agent not found";
    case "erased": return "Message erased";
    case "speaking_ended": return "Not answered";
    default: return problem.status >= 500 || problem.status === 0 ? "Service unavailable" : "Message not accepted";
  }
}

function adviceOf(problem: ApiError): string {
  if (problem.status === 429 && inDemo()) {
    return "The demo accepts a few requests per minute from each visitor. Your message was not sent. Send it again after the countdown, "
      + "or sign up for a higher limit.";
  }
  switch (problem.code) {
    case "caller_not_allowed": return "In the agent's settings, allow People under “Who may call it”.";
    case "not_found": return "The agent was deleted. Its finished runs can still be read.";
    case "overloaded": case "unavailable": return "The message was not accepted. Send it again in a moment.";
    case "budget_exceeded": return budgetOf(problem.detail);
    default: return problem.detail;
  }
}

/** Returns the sentence about a used up budget, without ids and without the time of its reset, which is shown separately. */
function budgetOf(detail: string): string {
  const words = detail.replace(/; [^;]* at \S+ \(bud_\w+\)$/, ".").replace(/ \((?:ag|key)_\w+\)/, "");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Shows people who can see budgets where to change the one that an error names, and advises others to ask an admin. */
function RaiseBudget({ detail }: { detail: string }) {
  const admin = useMay("admin");
  if (inDemo()) return null;
  const id = /\bbud_\w+/.exec(detail)?.[0];
  return admin ? <a href={"/dashboard/org/usage" + (id === undefined ? "" : "#" + id)}>Change the budget</a> : <>Ask an admin to raise it.</>;
}

const advice: Record<string, string> = {
  model_not_available: "Choose another model in the agent's settings, or ask the operator of this service to configure the provider.",
  model_unavailable: "Try again later, or add a fallback model in the agent's settings.",
  model_rate_limited: "Try again later, or add a fallback model in the agent's settings.",
  model_quota_exceeded: "Ask the operator of this service to check its account with the provider.",
  context_too_long: "Send a shorter message, or start a new session.",
  action_expired: "No decision was made in time. Ask again if you still need it.",
};

/** The errors that a change to the agent's settings can prevent. */
const changed = new Set(["model_not_available", "model_unavailable", "model_rate_limited"]);

/** A link to the agent's settings. Templates have no settings, and demo visitors see no link. */
export function SettingsLink({ agentId, part = "" }: { agentId: string | null; part?: string }) {
  if (inDemo() || agentId === null) return null;
  return <a href={`/dashboard/agents/${encodeURIComponent(agentId)}/settings${part && "#" + part}`}>Open the agent’s settings</a>;
}

/** Explains what to do about a run's error, with a link to the setting that can prevent it. */
export function Advice({ code, agentId, message }: { code: string; agentId: string | null; message: string }) {
  if (code === "budget_exceeded") return <p><RaiseBudget detail={message} /></p>;
  const words = advice[code];
  if (words === undefined) return null;
  return <p>{words} {changed.has(code) && <SettingsLink agentId={agentId} part="model" />}</p>;
}

/** Shows why a run has no answer. */
export function Ended({ turn, target, onAsk }: { turn: Turn; target: Target; onAsk: (() => void) | undefined }) {
  const error = turn.run?.error;
  const heads = { failed: "The run failed", timed_out: "The run timed out", cancelled: "The run was cancelled" } as const;
  const head = turn.status === "failed" || turn.status === "timed_out" ? heads[turn.status] : heads.cancelled;
  const quiet = turn.status === "cancelled";
  return (
    <div class={quiet ? "turn-ended" : "problem"}>
      <p>{quiet ? head + "." : <strong>{head}</strong>}</p>
      {error && <p>{error.code === "budget_exceeded" ? budgetOf(error.message) : error.message} <span class="quiet code">{error.code}</span></p>}
      {error && <Advice code={error.code} message={error.message} agentId={"agentId" in target ? target.agentId : null} />}
      {onAsk && <div class="actions"><Button onClick={onAsk}>Ask again</Button></div>}
    </div>
  );
}
