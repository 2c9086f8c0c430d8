// The dialog that sends a test delivery, signed like the sender's.
import { useState } from "preact/hooks";
import { ApiError, post } from "../../api";
import type { Hook, Received } from "../../types";
import { Button, LinkButton } from "../../ui/button";
import { Curl } from "../../ui/curl";
import { Dialog } from "../../ui/dialog";
import { TextArea, TextField, faultOf } from "../../ui/field";
import { Problem, Status } from "../../ui/parts";
import { tellOfDelivery } from "./deliveries";
import { sampleOf } from "./message";
import { sources } from "./sources";

export function SendTest({ hook }: { hook: Hook }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button icon="send" disabled={!hook.enabled} onClick={() => setOpen(true)}>Send a test</Button>
      {open && <Test hook={hook} onClose={() => setOpen(false)} />}
    </>
  );
}

function Test({ hook, onClose }: { hook: Hook; onClose: () => void }) {
  const { example } = sources[hook.source];
  const [event, setEvent] = useState(example.event);
  const [text, setText] = useState(() => JSON.stringify(example.payload, null, 2));
  const [error, setError] = useState<ApiError>();
  const [answer, setAnswer] = useState<Received>();
  const sample = sampleOf({ event, text });
  const params = { id: hook.id, action: "test" };
  const body = { ...(event !== "" && { event }), payload: sample?.payload ?? {} };
  const test = async () => {
    setError(undefined);
    try {
      setAnswer(await post<Received>("/api/hooks", body, params));
      tellOfDelivery();
    } catch (cause) {
      if (!(cause instanceof ApiError)) throw cause;
      setError(cause);
    }
  };
  return (
    <Dialog title="Send a test" onClose={onClose} foot={
      <>
        <Curl what="Send a test" request={{ method: "POST", path: "/api/hooks", params, body }} />
        <Button onClick={onClose}>Close</Button>
        <Button look="primary" disabled={!sample} onClick={test}>Send</Button>
      </>
    }>
      <div class="stack">
        <p class="quiet">The test is handled like a real delivery: it is signed, verified and filtered, and runs the agent.</p>
        <TextField label="Event" value={event} onChange={setEvent} fault={faultOf(error, "event")} />
        <TextArea label="Payload" mono rows={10} value={text} onChange={setText} fault={sample ? faultOf(error, "payload") : "is not valid JSON"} />
        {error && error.errors.length === 0 && <Problem error={error} />}
        {answer && (
          <p class="row" role="status">
            <Status of={answer.status} /> {answer.error?.message ?? outcome[answer.status]}
            {answer.runId && <LinkButton look="bare" href={"/dashboard/runs/" + answer.runId}>Open run</LinkButton>}
          </p>
        )}
      </div>
    </Dialog>
  );
}

const outcome: Record<Received["status"], string> = {
  accepted: "The agent runs.", coalesced: "It waits to be coalesced with other deliveries.", filtered: "The filter excludes it, so nothing runs.",
  answered: "The service responded as it does to the sender’s own tests.", refused: "No run starts. See Deliveries for the reason.",
  rejected: "The signature is not valid.",
};
