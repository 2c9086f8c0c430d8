// The texts of chats.
import { many } from "./plural";
import type { ComponentChildren } from "preact";

export enum Words {
  // Texts of the module chat/attachments.
  attachFiles = "Attach files",
  filesToAttach = "Files to attach",
  attachedFiles = "Attached files",
  tryAgain = "Try again",

  // Texts of the module chat/chat.
  newSession = "New session",
  jumpToNewestMessage = "Jump to the newest message",
  loadingTheSession = "Loading the session",
  loading = "Loading …",
  showEarlierMessages = "Show earlier messages",
  oneMessageWasReplaced = "One message was edited or answered again.",
  showOtherBranches = "Show other branches",
  messages = "Messages",
  agentIsWaiting = "The agent is waiting for your decision.",
  agentWaitsForClient = "The agent is waiting for tool results from the program that started the run.",
  connectionLostReconnecting = "Connection lost. Reconnecting.",
  connectedAgainAnswer = "Reconnected. Resuming the answer.",
  agentIsAnswering = "The agent is answering.",
  runEndedWithoutAnswer = "The run ended without an answer.",
  answerWasInterrupted = "The answer was interrupted.",
  askSomethingOrStart = "Ask something, or start with one of these",
  askSomething = "Ask something",
  eachAnswerIsRun = " Each answer is a run that you can inspect.",

  // Texts of the module chat/composer.
  message = "Message",
  dropFilesToAttach = "Drop the files to attach them",
  writeAMessage = "Write a message",
  stopTheRun = "Stop the run",
  stop = "Stop",
  sendMessage = "Send message",
  send = "Send",
  removeFilesThatFailed = "Remove the files that failed, and wait for the others. Then send.",
  youCanSendNext = "You can send the next message after this answer.",
  enterSendsShiftEnter = "Press Enter to send, or Shift+Enter to start a new line.",
  sendThisMessage = "Send this message",
  whatCanYouDo = "What can you do?",

  // Texts of the module chat/demo.
  inThisMinute = "in this minute",
  youCanSendRequests = "You can send requests again",

  // Texts of the module chat/sessions.
  yourSessions = "Your sessions",
  yourSessionsAppearHere = "Your sessions appear here after you send a message.",
  listSessions = "List sessions",
  session = "Session",
  eraseThisSession = "Erase this session?",
  eraseThisSessionText = "Erase this session",
  goBack = "Go back",
  erase = "Erase",
  itsMessagesAreDeleted = "The session’s messages are deleted permanently, with the texts and steps of its runs. Unfinished runs are cancelled.",

  // Texts of the module chat/trouble.
  sendAgain = "Send again",
  discardMessage = "Discard message",
  signUp = "Sign up",
  demoBudgetUsedUp = "Demo budget used up",
  demoLimitReached = "Demo limit reached",
  tooManyRequests = "Too many requests this minute",
  budgetUsedUp = "Budget used up",
  serviceBusy = "Service busy",
  agentIsntOpenToPeople = "This agent isn’t open to people",
  agentNotFound = "Agent not found",
  messageErased = "Message erased",
  notAnswered = "Not answered",
  serviceUnavailable = "Service unavailable",
  messageNotAccepted = "Message not accepted",
  demoAcceptsFewRequests = "The demo accepts a few requests per minute from each visitor. Your message was not sent. Send it again after the countdown, or sign up for a higher limit.",
  inAgentsSettingsAllow = "In the agent’s settings, allow People under “Who may call it”.",
  agentWasDeleted = "The agent was deleted. Its finished runs can still be read.",
  messageWasNotAccepted = "The message was not accepted. Send it again in a moment.",
  changeTheBudget = "Change the budget",
  askAdminToRaise = "Ask an admin to raise the budget.",
  chooseAnotherModel = "Choose another model in the agent’s settings, or ask the operator of this service to configure the provider.",
  tryAgainLater = "Try again later, or add a fallback model in the agent’s settings.",
  askOperatorOfThisService = "Ask the operator of this service to check its account with the provider.",
  sendShorterMessage = "Send a shorter message, or start a new session.",
  waitedTooLong = "The run waited too long for a decision or for results. Ask again if you still need the answer.",
  openAgentsSettings = "Open the agent’s settings",
  theRunFailed = "The run failed",
  runTimedOut = "The run timed out",
  runWasCancelled = "The run was cancelled",
  askAgain = "Ask again",

  // Texts of the module chat/turnview.
  beingSpoken = "being spoken",
  thisAnswerWasNotSpoken = "This answer was not spoken.",
  connectionLostReconnectingText = "Connection lost. Reconnecting …",
  stopping = "Stopping",
  sending = "Sending",
  working = "Working",
  waitingInQueue = "Waiting in the queue",
  thinking = "Thinking",
  runIsWaiting = "The run is waiting for a decision, but decisions can’t be made in the demo.",
  copyAnswer = "Copy answer",
  runDetails = "Run details",
  incompleteModelReached = "incomplete: the model reached its output limit",
  incompleteProviderWithheldRest = "incomplete: the provider withheld the rest",
}

// Texts of the module chat/attachments.
export const messageTakesAtMost = (maxFiles: number, files: string): string => `A message can have at most ${maxFiles} files. Not attached: ${files}.`;
export const uploadOfName = (name: string): string => `Upload of ${name}`;
export const tryAgainName = (name: string): string => `Try again: ${name}`;
export const removeName = (name: string): string => `Remove ${name}`;

// Texts of the module chat/chat.
export const messagesWereReplaced = (dropped: number): string => `${dropped} messages were edited or answered again.`;
export const answerText = (text: string): string => `Answer: ${text}`;
export const agentIsUsing = (calls: string): string => `The agent is using ${calls}.`;
export const agentSaidShownText = (shownText: string): string => `The agent said: ${shownText}`;
export const youSaidMessage = (message: string): string => `You said: ${message}`;
export const yourMessagesFormSession = (inDemo: ComponentChildren) => <>Your messages form a session, which the agent remembers.{inDemo}</>;

// Texts of the module chat/composer.
export const messageIsBytesTooLong = (toLocaleString: string): string => `The message is ${toLocaleString} bytes too long. Shorten it.`;

// Texts of the module chat/demo.
export const inSeconds = (windowSeconds: number): string => `in ${windowSeconds} s`;
export const leftOfMaxRequests = (left: number, max: number, span: string): string => `${left} of ${max} requests left ${span}`;

// Texts of the module chat/sessions.
export const sessionsHowMany = (howMany: string): string => `Sessions${howMany}`;
export const runs = (n: number): string => many(n, "run");
export const eraseSessionTitle = (title: string): string => `Erase session: ${title}`;

// Texts of the module chat/trouble.
export const limitResetsBeforeThatMessage = (time: ComponentChildren) => <>The limit resets {time}. Before that, the message may be refused again.</>;
export const sendAgainInS = (rest: number): string => `Send again in ${rest} s`;
export const requestRequestId = (requestId: string) => <>Request <code>{requestId}</code></>;

// Texts of the module chat/turnview.
export const interruptedYouHeard = () => <><span class="tag">Interrupted</span> You heard this part of the answer.</>;
export const interruptedHere = () => <><span class="tag">Interrupted</span> This part of the answer was shown or played.</>;
export const connectedAgainAnswerIsBeingResumed = () => <><span class="dots" aria-hidden="true"><i /><i /><i /></span>Reconnected. Resuming the answer.</>;
export const runIsWaitingForClient = (href: string) => <>The run is waiting for tool results from the program that started it. <a href={href}>Open the run</a></>;
export const runIsWaitingForDecision = (href: string) => <>The run is waiting for a decision. <a href={href}>Open the run</a></>;
export const spokenAfterLatency = (latency: string): string => `spoken after ${latency}`;
export const earlierTurnsOmittedModels = (omittedTurns: number): string => `${many(omittedTurns, "earlier turn")} omitted: the model’s context is too small`;
export const citationsRemovedNotFound = (citationsRemoved: number): string => `${many(citationsRemoved, "citation")} removed: not found in the source`;
export const tokens = (tokens: string): string => ` · ${tokens} tokens`;
export const cost = (costMicros: string): string => ` · cost ${costMicros}`;
export const messageTitle = (title: string): string => `Message: ${title}`;
export const playedPlayed = (played: string): string => `${played} played`;
