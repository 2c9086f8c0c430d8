// The messages that the model received in a turn, as far as the service stores them.
import * as texts from "../../texts/run";
import { Words } from "../../texts/run";
import type { Span, Timeline, ToolCall } from "../../types";
import { toolLabel } from "../../toolnames";

/** A message to the model, or one of its answers. */
export interface Sent {
  head: string;
  text: string;
  /** Whether the text is only the beginning of the message. */
  cut: boolean;
}

const maxCharacters = 8000; // maximum number of characters of a message that are shown

const sent = (head: string, text: string, cut = false): Sent => ({ head, text: text.slice(0, maxCharacters), cut: cut || text.length > maxCharacters });

const formatValue = (value: unknown): string => (typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? ""));

/** Names the tool calls that a turn requested. */
export function requestedCalls(span: Span, calls: ToolCall[]): ToolCall[] {
  return (span.toolCallIds ?? []).flatMap((id) => calls.find((call) => call.id === id) ?? []);
}

/**
 * Returns the model's message in a finished turn, and the results of the tool calls that it
 * requested.
 */
function exchange(span: Span, calls: ToolCall[]): Sent[] {
  const made = requestedCalls(span, calls);
  const names = made.map((call) => toolLabel(call.name)).join(", ");
  const said = [span.text ?? "", names && texts.callsNames(names)].filter(Boolean).join("\n\n");
  return [
    sent(texts.answerOfName(span.name), said, span.textCut),
    ...made.filter((call) => call.output !== null && call.output !== undefined).map((call) => sent(texts.resultOfToolNamed(toolLabel(call.name)), formatValue(call.output))),
  ];
}

/**
 * Returns the messages that the model received in a turn, oldest first. The service does not store
 * the agent's instructions and the session's earlier messages with the run, so these are missing.
 */
export function turnMessages(trace: Timeline, turn: Span, calls: ToolCall[]): Sent[] {
  const { input, spans } = trace;
  const before = spans.slice(0, spans.indexOf(turn)).filter((s) => s.kind === "turn" && s.status === "completed");
  return [
    ...(input.instructions ? [sent(Words.instructionsOfRequest, input.instructions)] : []),
    ...(input.history ?? []).flatMap((h) => [sent(Words.earlierMessage, h.message), sent(Words.earlierAnswer, h.answer)].filter((m) => m.text !== "")),
    sent(Words.message, input.message),
    ...(input.data === undefined ? [] : [sent(Words.dataOfTheMessage, formatValue(input.data))]),
    ...before.flatMap((s) => exchange(s, calls)),
  ];
}
