// The dialog that sends a test delivery, which is signed as the sender would sign it.
import { useState } from "preact/hooks";
import { ApiError, post } from "../../api";
import { Words } from "../../texts/hooks";
import type { Hook, Received } from "../../types";
import { Button, LinkButton } from "../../ui/button";
import { Curl } from "../../ui/curl";
import { Dialog } from "../../ui/dialog";
import { TextArea, TextField, fieldFault } from "../../ui/field";
import { Problem, Status } from "../../ui/parts";
import { notifyDelivery } from "./deliveries";
import { parseSample } from "./message";
import { sources } from "./sources";

export function SendTest({ hook }: { hook: Hook }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button icon="send" disabled={!hook.enabled} onClick={() => setOpen(true)}>{Words.sendATest}</Button>
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
  const sample = parseSample({ event, text });
  const params = { id: hook.id, action: "test" };
  const body = { ...(event !== "" && { event }), payload: sample?.payload ?? {} };
  const test = async () => {
    setError(undefined);
    try {
      setAnswer(await post<Received>("/api/hooks", body, params));
      notifyDelivery();
    } catch (cause) {
      if (!(cause instanceof ApiError)) throw cause;
      setError(cause);
    }
  };
  return (
    <Dialog title={Words.sendATest} onClose={onClose} foot={
      <>
        <Curl what={Words.sendATest} request={{ method: "POST", path: "/api/hooks", params, body }} />
        <Button onClick={onClose}>{Words.close}</Button>
        <Button look="primary" disabled={!sample} onClick={test}>{Words.send}</Button>
      </>
    }>
      <div class="stack">
        <p class="quiet">{Words.testIsHandledLike}</p>
        <TextField label={Words.event} value={event} onChange={setEvent} fault={fieldFault(error, "event")} />
        <TextArea label={Words.payload} mono rows={10} value={text} onChange={setText} fault={sample ? fieldFault(error, "payload") : Words.isNotValidJson} />
        {error && error.errors.length === 0 && <Problem error={error} />}
        {answer && (
          <p class="row" role="status">
            <Status of={answer.status} /> {answer.error?.message ?? outcome[answer.status]}
            {answer.runId && <LinkButton look="bare" href={"/dashboard/runs/" + answer.runId}>{Words.openRun}</LinkButton>}
          </p>
        )}
      </div>
    </Dialog>
  );
}

const outcome: Record<Received["status"], string> = {
  accepted: Words.agentRuns, coalesced: Words.itWaitsToBeCoalesced, filtered: Words.filterExcludesItSoNothing,
  answered: Words.treatedAsTestMessageOfSender, refused: Words.noRunStartsSee,
  rejected: Words.deliveryWasRejected,
};
