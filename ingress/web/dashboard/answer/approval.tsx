import { useState } from "preact/hooks";
import { ApiError, get, post } from "../api";
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
    { action: "approve", words: "Approve", look: "primary", means: "The call is made exactly as shown, and the run continues." },
    { action: "deny", words: "Deny", means: "The call is not made. The agent is informed and continues without it." },
  ],
  unknown_outcome: [
    { action: "happened", words: "Mark as done", means: "The call is not repeated. Its response is lost, and the run continues without it." },
    { action: "resend", words: "Send again", look: "danger", means: "The call is made again. If the first call went through, it happens twice." },
    { action: "abandon", words: "End the run", look: "danger", means: "Nothing more is done, and the run fails." },
  ],
};

/**
 * Shows the action that a run waits for, and a button for each possible decision. label distinguishes it from others on the
 * page.
 */
export function Approval({ run, label = "Your decision is needed", onDone }: { run: Pick<RunSummary, "id" | "requiredAction">; label?: string; onDone: (run: Run) => void }) {
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
      toast("Someone else decided first. The page shows the run's current state.", "bad");
      onDone(await get<Run>("/api/runs", { id: run.id }));
    }
  };
  return (
    <section class="approval stack" aria-label={label}>
      <Asked action={action} />
      {action.inputCut
        ? <p>The input is too long to show here. <a href={"/dashboard/runs/" + encodeURIComponent(run.id)}>Read it on the run’s page</a> before you decide.</p>
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
      <p class="quiet small">Without a decision, the run fails <Time at={action.expiresAt} />. Waiting costs nothing. Later messages in the session wait until then.</p>
      {choices[action.kind].map((choice) => (
        <Curl key={choice.action} what={choice.words}
          request={{ method: "POST", path: "/api/runs", params: { id: run.id, action: choice.action, toolCallId: action.toolCallId } }} />
      ))}
    </section>
  );
}

/** Shows the calls whose results the client of a run must send. Only the client can make them. */
function ClientCalls({ action }: { action: RequiredAction }) {
  return (
    <section class="approval stack" aria-label="The run waits for its client">
      <div>
        <h2>Waiting for the client</h2>
        <p>The agent called tools of the program that started this run. The run continues when the program sends their results.</p>
      </div>
      {(action.calls ?? []).map((call) => (
        <div key={call.toolCallId}>
          <code>{call.name}</code>
          <Arguments name={call.name} input={call.input} />
        </div>
      ))}
      <p class="quiet small">Without results, the run fails <Time at={action.expiresAt} />. Later messages in the session wait until then.</p>
    </section>
  );
}

function Asked({ action }: { action: RequiredAction }) {
  if (action.kind === "approval") {
    return (
      <div>
        <h2>Allow the agent to use <code>{action.name}</code>?</h2>
        <p>Nothing has been sent yet. The run is waiting for your decision.</p>
      </div>
    );
  }
  return (
    <div>
      <h2>Did the call to <code>{action.name}</code> go through?</h2>
      <p>The call may have been executed, but its response was lost. Check the called system before you decide.</p>
    </div>
  );
}
