// A turn on the page: the message, the agent's activity, the answer, and its duration and cost.
import { useEffect, useState } from "preact/hooks";
import { Answer } from "../answer/answer";
import { Approval } from "../answer/approval";
import { SentAttachments } from "../answer/files";
import { ToolCalls } from "../answer/toolcalls";
import { get, inDemo } from "../api";
import * as texts from "../texts/chat";
import { Words } from "../texts/chat";
import type { Attachment, Run, RunSummary } from "../types";
import { Button } from "../ui/button";
import { Copy } from "../ui/copy";
import { money } from "../ui/money";
import { count, duration, Time } from "../ui/parts";
import type { ChatSession } from "./session";
import { Refused, Ended } from "./trouble";
import { ended, shownText, messageTitle, underWay, waitsForClient, type Spoken, type Turn } from "./turn";

export function TurnView({ turn, session, onAsk, last }: { turn: Turn; session: ChatSession; onAsk: (message: string, attachments: Attachment[]) => void; last: boolean }) {
  const text = shownText(turn);
  const answered = text !== "" || (turn.status === "completed" && turn.spoken?.phase !== "thinking");
  const beingSpoken = turn.spoken?.phase === "hearing" || turn.spoken?.phase === "understanding";
  return (
    <article class="turn" aria-label={texts.messageTitle(messageTitle(turn.message, turn.attachments).slice(0, 60) || Words.beingSpoken)}>
      {(turn.message !== "" || turn.attachments.length === 0) && <div class="turn-asked" dir="auto">{turn.message || <SpeechIndicator />}</div>}
      <SentAttachments list={turn.attachments} readable={turn.run !== null} />
      {!beingSpoken && (turn.toolCalls.length > 0 || answered || turn.status !== "sending" || !turn.problem) && (
        <div class="turn-reply">
          <ToolCalls completed={turn.status === "completed"} calls={turn.toolCalls.map((c) => (c.id === turn.requiredAction?.toolCallId && c.status === "running" ? { ...c, status: "waiting" } : c))} />
          {answered && <Answer text={text} citations={turn.citations} toolCalls={turn.toolCalls} streaming={underWay(turn)} />}
          {turn.playedText !== null && <Interrupted turn={turn} onAsk={last ? () => onAsk(turn.message, turn.attachments) : undefined} />}
          {turn.spoken?.silent && turn.playedText === null && answered && <p class="turn-ended">{Words.thisAnswerWasNotSpoken}</p>}
          <Progress turn={turn} />
          {turn.status === "requires_action" && <Decision turn={turn} session={session} />}
          {ended(turn.status) && turn.status !== "completed" && turn.playedText === null && <Ended turn={turn} target={session.target} onAsk={last ? () => onAsk(turn.message, turn.attachments) : undefined} />}
          {ended(turn.status) && <Took turn={turn} />}
        </div>
      )}
      {turn.problem && <Refused turn={turn} session={session} />}
    </article>
  );
}

/**
 * Shows that an answer was interrupted. A cancelled answer can be asked for again, unless the
 * message was spoken since the page was loaded.
 */
function Interrupted({ turn, onAsk }: { turn: Turn; onAsk: (() => void) | undefined }) {
  if (turn.spoken) return <p class="turn-ended">{texts.interruptedYouHeard()}</p>;
  return (
    <div class="turn-ended">
      <p>{texts.interruptedHere()}</p>
      {onAsk && turn.status === "cancelled" && <div class="actions"><Button onClick={onAsk}>{Words.askAgain}</Button></div>}
    </div>
  );
}

/** Shows that the person is speaking, until the words are transcribed. */
function SpeechIndicator() {
  return <><span class="dots" aria-hidden="true"><i /><i /><i /></span><span class="visually-hidden">{Words.beingSpoken}</span></>;
}

/**
 * Shows that the agent is working, both before the text of its answer appears and during tool
 * calls.
 */
function Progress({ turn }: { turn: Turn }) {
  const [slow, setSlow] = useState(false);
  useEffect(() => {
    if (turn.status !== "queued") return setSlow(false);
    const timer = setTimeout(() => setSlow(true), 4000);
    return () => clearTimeout(timer);
  }, [turn.status]);

  if (!underWay(turn) || turn.status === "requires_action") return null;
  if (turn.cutOff === "lost") return <p class="turn-going">{Words.connectionLostReconnectingText}</p>;
  if (turn.cutOff === "resuming") return <p class="turn-going">{texts.connectedAgainAnswerIsBeingResumed()}</p>;

  const calls = turn.toolCalls.filter((c) => c.status === "running");
  if (shownText(turn).trim() !== "" && calls.length === 0 && !turn.stopping) return null;
  const words = turn.stopping ? Words.stopping : turn.status === "sending" && !turn.spoken ? Words.sending : calls.length > 0 ? Words.working : slow ? Words.waitingInQueue : Words.thinking;
  return <p class="turn-going"><span class="dots" aria-hidden="true"><i /><i /><i /></span>{words}</p>;
}

/**
 * Shows the action that the run waits for. The stream continues automatically after the decision.
 */
function Decision({ turn, session }: { turn: Turn; session: ChatSession }) {
  const [run, setRun] = useState<Run | null>(null);
  useEffect(() => {
    if (turn.runId === null || inDemo()) return;
    const stop = new AbortController();
    get<Run>("/api/runs", { id: turn.runId }, stop.signal).then(setRun, () => {}); // if this fails, the link to the run's page is shown
    return () => stop.abort();
  }, [turn.runId, turn.requiredAction?.toolCallId, turn.requiredAction?.expiresAt]);
  if (inDemo()) return <p class="quiet">{Words.runIsWaiting}</p>;
  if (run?.requiredAction) return <Approval key={run.requiredAction.toolCallId ?? run.requiredAction.expiresAt} run={run} onDone={(now) => session.decided(turn, now)} />;
  const href = `/dashboard/runs/${turn.runId}`;
  return <p class="turn-going">{waitsForClient(turn) ? texts.runIsWaitingForClient(href) : texts.runIsWaitingForDecision(href)}</p>;
}

/** Shows the duration, tokens and cost of an answer. */
function Took({ turn }: { turn: Turn }) {
  const { run, spoken } = turn;
  return (
    <div class="turn-took">
      {shownText(turn) !== "" && <Copy text={shownText(turn)} label={Words.copyAnswer} />}
      {turn.runId !== null && !inDemo() && <a href={`/dashboard/runs/${turn.runId}`}>{Words.runDetails}</a>}
      {run && <Figures run={run} />}
      {spoken && <SpokenFigures spoken={spoken} />}
      <span class="quiet"><Time at={turn.createdAt} /></span>
    </div>
  );
}

function SpokenFigures({ spoken }: { spoken: Spoken }) {
  return (
    <>
      {spoken.latency !== null && <span class="quiet number">{texts.spokenAfterLatency(duration(spoken.latency))}</span>}
      {spoken.played > 0 && <span class="quiet number">{texts.playedPlayed(duration(spoken.played))}</span>}
    </>
  );
}

function Figures({ run }: { run: RunSummary }) {
  const { inputTokens, outputTokens, costMicros, model } = run.usage;
  const took = run.finishedAt === null ? null : duration(Date.parse(run.finishedAt) - Date.parse(run.createdAt));
  const tokens = inputTokens + outputTokens;
  const notes = [
    run.finishReason === "length" ? Words.incompleteModelReached : "",
    run.finishReason === "content_filter" ? Words.incompleteProviderWithheldRest : "",
    run.omittedTurns ? texts.earlierTurnsOmittedModels(run.omittedTurns) : "",
    run.citationsRemoved ? texts.citationsRemovedNotFound(run.citationsRemoved) : "",
  ].filter(Boolean);
  return (
    <>
      <span class="quiet number">
        {took}{tokens > 0 && texts.tokens(count(tokens))}{costMicros > 0 && texts.cost(money(costMicros))}{model && ` · ${model}`}
      </span>
      {notes.map((note) => <span key={note} class="quiet">{note}</span>)}
    </>
  );
}
