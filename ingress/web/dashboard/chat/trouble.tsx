// Explains why a message was refused or a run has no answer, and what to do next.
import { inDemo, type ApiError } from "../api";
import { useMay } from "../state";
import * as texts from "../texts/chat";
import { Words } from "../texts/chat";
import { runErrors, wordFor } from "../texts/values";
import { Button } from "../ui/button";
import { Time } from "../ui/parts";
import { useCountdown } from "./limit";
import type { ChatSession } from "./session";
import type { Target } from "./target";
import type { Turn } from "./turn";

const maxDisabled = 60; // maximum seconds for which the button is disabled; a retry may succeed before the end of a longer wait

/** Shows a message that was refused, with a button that sends it again. */
export function Refused({ turn, session }: { turn: Turn; session: ChatSession }) {
  const problem = turn.problem;
  const rest = useCountdown(turn.againAt);

  if (!problem) return null;
  const long = (problem.retryAfter ?? 0) > maxDisabled;
  const paused = rest > 0 && !long;
  const again = problem.status === 0 || problem.status === 429 || problem.status >= 500;

  return (
    <div class="problem stack" role="alert">
      <div>
        <p><strong>{headFor(problem)}</strong></p>
        <p>{adviceFor(problem)} {problem.code === "caller_not_allowed" && <SettingsLink agentId={"agentId" in session.target ? session.target.agentId : null} part="callers" />}{problem.code === "budget_exceeded" && <RaiseBudget detail={problem.detail} />}</p>
        {problem.errors.map((e) => <p key={e.field + e.code}><code>{e.field}</code> {e.message}</p>)}
        {long && rest > 0 && turn.againAt !== null && <p>{texts.limitResetsBeforeThatMessage(<Time at={new Date(turn.againAt).toISOString()} />)}</p>}
      </div>
      <div class="actions">
        {again && <Button onClick={() => session.resend(turn)} disabled={paused}>{paused ? texts.sendAgainInS(rest) : Words.sendAgain}</Button>}
        {turn.runId === null && <Button look="bare" onClick={() => session.drop(turn)}>{Words.discardMessage}</Button>}
        {inDemo() && problem.status === 429 && <SignUp />}
      </div>
      {problem.requestId && <p class="small quiet">{texts.requestRequestId(problem.requestId)}</p>}
    </div>
  );
}

function SignUp() {
  return <a class="button" href="/signup">{Words.signUp}</a>;
}

function headFor(problem: ApiError): string {
  if (problem.status === 429 && inDemo()) return problem.code === "budget_exceeded" ? Words.demoBudgetUsedUp : Words.demoLimitReached;
  switch (problem.code) {
    case "rate_limited": return Words.tooManyRequests;
    case "budget_exceeded": return Words.budgetUsedUp;
    case "overloaded": return Words.serviceBusy;
    case "caller_not_allowed": return Words.agentIsntOpenToPeople;
    case "not_found": return Words.agentNotFound;
    case "erased": return Words.messageErased;
    case "speaking_ended": return Words.notAnswered;
    default: return problem.status >= 500 || problem.status === 0 ? Words.serviceUnavailable : Words.messageNotAccepted;
  }
}

function adviceFor(problem: ApiError): string {
  if (problem.status === 429 && inDemo()) {
    return Words.demoAcceptsFewRequests;
  }
  switch (problem.code) {
    case "caller_not_allowed": return Words.inAgentsSettingsAllow;
    case "not_found": return Words.agentWasDeleted;
    case "overloaded": case "unavailable": return Words.messageWasNotAccepted;
    case "budget_exceeded": return budgetSentence(problem.detail);
    default: return problem.detail;
  }
}

/**
 * Returns the sentence of an error that names the used-up budget, without ids. The sentence does
 * not contain the time of the reset, which is shown separately.
 */
function budgetSentence(detail: string): string {
  return detail.replace(/; [^;]* at \S+ \(bud_\w+\)\.$/, ".").replace(/ \((?:ag|key)_\w+\)/, "");
}

/**
 * Links to the budget that an error names, if the person may see budgets. Otherwise advises the
 * person to ask an admin.
 */
function RaiseBudget({ detail }: { detail: string }) {
  const admin = useMay("admin");
  if (inDemo()) return null;
  const id = /\bbud_\w+/.exec(detail)?.[0];
  return admin ? <a href={"/dashboard/org/usage" + (id === undefined ? "" : "#" + id)}>{Words.changeTheBudget}</a> : <>{Words.askAdminToRaise}</>;
}

const advice: Record<string, string> = {
  model_not_available: Words.chooseAnotherModel,
  model_unavailable: Words.tryAgainLater,
  model_rate_limited: Words.tryAgainLater,
  model_quota_exceeded: Words.askOperatorOfThisService,
  context_too_long: Words.sendShorterMessage,
  action_expired: Words.waitedTooLong,
};

/** The codes of the run errors that an admin can prevent by a change of the agent's settings. */
const changed = new Set(["model_not_available", "model_unavailable", "model_rate_limited"]);

/**
 * Links to the agent's settings. Shows nothing in the demo, and for templates, which have no
 * settings.
 */
export function SettingsLink({ agentId, part = "" }: { agentId: string | null; part?: string }) {
  if (inDemo() || agentId === null) return null;
  return <a href={`/dashboard/agents/${encodeURIComponent(agentId)}/settings${part && "#" + part}`}>{Words.openAgentsSettings}</a>;
}

/** Explains what to do about a run's error, with a link to the setting that can prevent it. */
export function Advice({ code, agentId, message }: { code: string; agentId: string | null; message: string }) {
  if (code === "budget_exceeded") return <p><RaiseBudget detail={message} /></p>;
  const words = advice[code];
  if (words === undefined) return null;
  return <p>{words} {changed.has(code) && <SettingsLink agentId={agentId} part="model" />}</p>;
}

/** Shows the code of a run's error in words, with a link to its description. */
export function RunErrorCode({ code }: { code: string }) {
  return <span class="small"><a href={"/docs/errors#run-" + code}>{wordFor(runErrors, code)}</a> <span class="quiet code">{code}</span></span>;
}

/** Shows why a run has no answer. */
export function Ended({ turn, target, onAsk }: { turn: Turn; target: Target; onAsk: (() => void) | undefined }) {
  const error = turn.run?.error;
  const heads = { failed: Words.theRunFailed, timed_out: Words.runTimedOut, cancelled: Words.runWasCancelled } as const;
  const head = turn.status === "failed" || turn.status === "timed_out" ? heads[turn.status] : heads.cancelled;
  const quiet = turn.status === "cancelled";
  return (
    <div class={quiet ? "turn-ended" : "problem"}>
      <p>{quiet ? head + "." : <strong>{head}</strong>}</p>
      {error && <p>{error.code === "budget_exceeded" ? budgetSentence(error.message) : error.message} <RunErrorCode code={error.code} /></p>}
      {error && <Advice code={error.code} message={error.message} agentId={"agentId" in target ? target.agentId : null} />}
      {onAsk && <div class="actions"><Button onClick={onAsk}>{Words.askAgain}</Button></div>}
    </div>
  );
}
