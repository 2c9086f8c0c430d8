// The texts of an answer: its sources, tools, files and approvals.
import type { ComponentChildren } from "preact";

export enum Words {
  // Texts of the module answer/answer.
  code = "Code",
  source = "Source",
  sources = "Sources",
  document = "document",

  // Texts of the module answer/approval.
  approve = "Approve",
  callIsMadeExactly = "The call is made exactly as shown, and the run continues.",
  deny = "Deny",
  callIsNotMade = "The call is not made. The agent is informed and continues without it.",
  markAsDone = "Mark as done",
  callIsNotRepeated = "The call is not repeated. Its response is lost, and the run continues without it.",
  sendAgain = "Send again",
  callIsMadeAgain = "The call is made again. If the first call went through, its effect happens twice.",
  endTheRun = "End the run",
  nothingMoreIsDone = "The call is not made again, and the run fails.",
  yourDecisionIsNeeded = "Your decision is needed",
  someoneElseDecidedFirst = "Someone else decided first. The page shows the run’s current state.",
  runWaitsForItsClient = "The run is waiting for its client",
  waitingForClient = "Waiting for the client",
  agentCalledTools = "The agent called tools of the program that started this run. The run continues when the program sends their results.",
  nothingHasBeenSent = "The call has not been made yet. The run is waiting for your decision.",
  callMayHaveBeenExecuted = "The call may have been executed, but its response was lost. Check the called system before you decide.",

  // Texts of the module answer/files.
  filesCantBeOpened = "Files can’t be opened in the demo",
  files = "Files",
  filesCantBeOpenedInDemo = "Files can’t be opened in the demo. Sign up to open them.",
  attachedFiles = "Attached files",

  // Texts of the module answer/source.
  aDocument = ", a document",
  closeSource = "Close source",
  demoShowsOnlyCited = "The demo shows only the cited words. Sign up to read the whole text.",
  openTheDocument = "Open the document",
  readThisSource = "Read this source",
  textOfThisSource = "The full text of this source was not stored. Only the cited words are shown.",
  loadingTheSource = "Loading the source",
  textNoLongerAvailable = "Text no longer available",
  itWasDeleted = "The text was deleted together with the runs that read it.",
  documentWasDeleted = "The document was deleted, or its content was replaced.",
  currentTextNoLonger = "The current text no longer contains the cited words.",
  textOfSource = "Text of the source",
  citedPassageOfDocument = "The cited passage of the document.",

  // Texts of the module answer/toolcalls.
  toolCalls = "Tool calls",
  input = "Input",
  program = "Program",
  otherInput = "Other input",
  noOutputYet = "No output yet.",
  output = "Output",
  value = "Value",
  standardOutput = "Standard output",
  error = "Error",
  standardError = "Standard error",
  otherOutput = "Other output",
}

// Texts of the module answer/answer.
export const codeInLanguage = (language: string): string => `Code in ${language}`;
export const sourceNumberTitle = (number: number, title: string): string => `Source ${number}: ${title}`;
export const sourceNumber = (number: number): string => `Source ${number}:`;
export const pagePage = (page: number): string => `page ${page}`;
export const quoted = (words: string): string => `“${words}”`;

// Texts of the module answer/approval.
export const inputIsTooLong = (href: string) => <>The input is too long to show here. <a href={href}>Read it on the run’s page</a> before you decide.</>;
export const withoutDecisionRunFails = (time: ComponentChildren) => <>Without a decision, the run fails {time}. Waiting costs nothing. Later messages in the session wait until then.</>;
export const withoutResultsRunFails = (time: ComponentChildren) => <>Without results, the run fails {time}. Later messages in the session wait until then.</>;
export const allowAgentToUse = (name: ComponentChildren) => <>Allow the agent to use <code>{name}</code>?</>;
export const didCallToGo = (name: ComponentChildren) => <>Did the call to <code>{name}</code> go through?</>;

// Texts of the module answer/code.
export const copyLabel = (label: string): string => `Copy: ${label}`;

// Texts of the module answer/files.
export const downloadNameBytes = (name: string, bytes: string): string => `Download ${name}, ${bytes}`;

// Texts of the module answer/source.
export const pagePagePart = (page: number): string => `, page ${page}`;
export const sourceNumberPartPart = (number: number, part: string, part2: string): string => `Source ${number}${part}${part2}`;
export const openPageInNew = () => <>Open the page<span class="visually-hidden"> in a new window</span></>;
export const theseAreCitedWords = (part: string): string => `${part} These are the cited words.`;
export const textAsItWasRead = (readAt: ComponentChildren) => <>The text as it was read{readAt}. The page may have changed since.</>;
export const onlyFirstCharacters = (text: string): string => ` Only the first ${text} characters are stored.`;

// Texts of the module answer/toolcalls.
export const inputOfName = (name: string): string => `Input of ${name}`;
export const outputOfName = (name: string): string => `Output of ${name}`;
