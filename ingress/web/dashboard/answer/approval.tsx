import { useState } from "preact/hooks";
import { ApiError, get, post } from "../api";
import * as texts from "../texts/answer";
import { Words } from "../texts/answer";
import type { RequiredAction, Run, RunSummary } from "../types";
import { Button } from "../ui/button";
import { Curl } from "../ui/curl";
import { Problem, Time } from "../ui/parts";
import { toast } from "../ui/toast";
import { Arguments } from "./toolcalls";

interface Choice {
  action: string;
  words: string;
  means: string;
  look?: "primary" | "danger";
}

// The decisions that the API accepts for each kind of required action.
const choices: Record<Exclude<RequiredAction["kind"], "client_tools">, Choice[]> = {
  approval: [
    { action: "approve", words: Words.approve, look: "primary", means: Words.callIsMadeExactly },
    { action: "deny", words: Words.deny, means: Words.callIsNotMade },
  ],
  unknown_outcome: [
    { action: "happened", words: Words.markAsDone, means: Words.callIsNotRepeated },
    { action: "resend", words: Words.sendAgain, look: "danger", means: Words.callIsMadeAgain },
    { action: "abandon", words: Words.endTheRun, look: "danger", means: Words.nothingMoreIsDone },
  ],
};

/**
 * Shows the action that a run waits for, with a button for each possible decision. The property
 * label distinguishes this action from others on the page.
 */
export function Approval({ run, label = Words.yourDecisionIsNeeded, onDone }: { run: Pick<RunSummary, "id" | "requiredAction">; label?: string; onDone: (run: Run) => void }) {
  const [error, setError] = useState<ApiError>();
  const action = run.requiredAction;
  if (!action) return null;
  if (action.kind === "client_tools") return <ClientCalls action={action} />;
  const decide = async (choice: Choice) => {
    setError(undefined);
    try {
      onDone(await post<Run>("/api/runs", undefined, { id: run.id, action: choice.action, toolCallId: action.toolCallId }));
    } catch (cause) {
      if (!(cause instanceof ApiError)) throw cause;
      if (cause.status !== 409) return setError(cause);
      toast(Words.someoneElseDecidedFirst, "bad");
      onDone(await get<Run>("/api/runs", { id: run.id }));
    }
  };
  return (
    <section class="approval stack" aria-label={label}>
      <Asked action={action} />
      {action.inputCut
        ? <p>{texts.inputIsTooLong("/dashboard/runs/" + encodeURIComponent(run.id))}</p>
        : <Arguments name={action.name ?? ""} input={action.input} />}
      {error && <Problem error={error} />}
      <ul class="choices">
        {choices[action.kind].map((choice) => (
          <li key={choice.action}>
            <Button look={choice.look} onClick={() => decide(choice)}>{choice.words}</Button>
            <span>{choice.means}</span>
          </li>
        ))}
      </ul>
      <p class="quiet small">{texts.withoutDecisionRunFails(<Time at={action.expiresAt} />)}</p>
      {choices[action.kind].map((choice) => (
        <Curl key={choice.action} what={choice.words}
          request={{ method: "POST", path: "/api/runs", params: { id: run.id, action: choice.action, toolCallId: action.toolCallId } }} />
      ))}
    </section>
  );
}

/**
 * Shows the tool calls whose results the run's client must send. Only that client can make these
 * calls.
 */
function ClientCalls({ action }: { action: RequiredAction }) {
  return (
    <section class="approval stack" aria-label={Words.runWaitsForItsClient}>
      <div>
        <h2>{Words.waitingForClient}</h2>
        <p>{Words.agentCalledTools}</p>
      </div>
      {(action.calls ?? []).map((call) => (
        <div key={call.toolCallId}>
          <code>{call.name}</code>
          <Arguments name={call.name} input={call.input} />
        </div>
      ))}
      <p class="quiet small">{texts.withoutResultsRunFails(<Time at={action.expiresAt} />)}</p>
    </section>
  );
}

function Asked({ action }: { action: RequiredAction }) {
  if (action.kind === "approval") {
    return (
      <div>
        <h2>{texts.allowAgentToUse(action.name)}</h2>
        <p>{Words.nothingHasBeenSent}</p>
      </div>
    );
  }
  return (
    <div>
      <h2>{texts.didCallToGo(action.name)}</h2>
      <p>{Words.callMayHaveBeenExecuted}</p>
    </div>
  );
}
