import { useState } from "preact/hooks";
import { ApiError, get, post } from "../api";
import type { RequiredAction, Run } from "../types";
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

const choices: Record<RequiredAction["kind"], Choice[]> = {
  approval: [
    { action: "approve", words: "Approve", look: "primary", means: "The call is made as it stands here, and the run goes on." },
    { action: "deny", words: "Deny", means: "The call is not made. The agent is told so, and goes on without it." },
  ],
  unknown_outcome: [
    { action: "happened", words: "It happened", means: "The call is not made again. What it answered is lost; the run goes on without it." },
    { action: "resend", words: "Send it again", look: "danger", means: "The call is made once more. If it did go through before, it happens twice." },
    { action: "abandon", words: "End the run", look: "danger", means: "Nothing more is done, and the run ends as failed." },
  ],
};

/** What a run waits for a person to decide, and the ways to decide it. */
export function Approval({ run, onDone }: { run: Run; onDone: (run: Run) => void }) {
  const [error, setError] = useState<ApiError>();
  const action = run.requiredAction;
  if (!action) return null;
  const decide = async (choice: Choice) => {
    setError(undefined);
    try {
      onDone(await post<Run>("/api/runs", undefined, { id: run.id, action: choice.action, toolCallId: action.toolCallId }));
    } catch (cause) {
      if (!(cause instanceof ApiError)) throw cause;
      if (cause.status !== 409) return setError(cause);
      toast("Somebody else decided first. This is how the run stands now.", "bad");
      onDone(await get<Run>("/api/runs", { id: run.id }));
    }
  };
  return (
    <section class="approval stack" aria-label="Your decision is needed">
      <Asked action={action} />
      <Arguments name={action.name} input={action.input} />
      {error && <Problem error={error} />}
      <ul class="choices">
        {choices[action.kind].map((choice) => (
          <li key={choice.action}>
            <Button look={choice.look} onClick={() => decide(choice)}>{choice.words}</Button>
            <span>{choice.means}</span>
          </li>
        ))}
      </ul>
      <p class="quiet small">Without a decision the run fails <Time at={action.expiresAt} />. Until then it costs nothing, and later messages of its session wait.</p>
      <details class="choices-curl">
        <summary class="quiet small">Decide with curl</summary>
        <div class="row">
          {choices[action.kind].map((choice) => (
            <Curl key={choice.action} what={choice.words} words={choice.words}
              request={{ method: "POST", path: "/api/runs", params: { id: run.id, action: choice.action, toolCallId: action.toolCallId } }} />
          ))}
        </div>
      </details>
    </section>
  );
}

function Asked({ action }: { action: RequiredAction }) {
  if (action.kind === "approval") {
    return (
      <div>
        <h2>May the agent use <code>{action.name}</code>?</h2>
        <p>Nothing has been sent. The run waits for your decision.</p>
      </div>
    );
  }
  return (
    <div>
      <h2>Did <code>{action.name}</code> happen?</h2>
      <p>The call may have been carried out, and its answer was lost. Look where it would show before you decide.</p>
    </div>
  );
}
