// The questions that an empty chat offers if its agent has no suggested questions.
import * as texts from "./texts/questions";
import { Words } from "./texts/questions";
import type { Tools } from "./types";

const maxQuestions = 3; // number of questions
const maxDescription = 120; // maximum number of characters of a description in a question

/** Returns the first sentence of a text, or "" if it is too long for a question. */
function firstSentence(text: string): string {
  const sentence = /^.*?[.!?:;](?=\s|$)|^.*/.exec(text.trim().replaceAll(/\s+/g, " "))?.[0] ?? "";
  return sentence.length > maxDescription ? "" : sentence.replace(/[:;]$/, ".");
}

/**
 * Returns two or three questions for an agent: about its abilities, for its tools, and for an
 * example of its work. No question makes the agent call a tool with side effects.
 */
export function firstQuestions({ name, description, tools }: { name: string; description: string; tools: Tools }): string[] {
  const questions: string[] = [Words.whatCanYouDo];
  if (tools.knowledge?.enabled) questions.push(Words.whatAreMainPoints);
  if (tools.codeExecution?.enabled) questions.push(Words.computeSquares);
  if (tools.webSearch?.enabled) questions.push(Words.searchTheNews);
  const harmless = tools.httpRequest?.enabled ? tools.httpRequest.endpoints?.find((e) => e.sideEffect === "none") : undefined;
  if (harmless) questions.push(texts.whichValuesFor(harmless.name));

  const sentence = firstSentence(description);
  if (sentence !== "") questions.push(texts.showExampleOf(sentence));
  else if (name.trim() !== "") questions.push(texts.showWorkAs(name.trim()));
  return questions.slice(0, maxQuestions);
}
