// The texts of voice sessions.

export enum Words {
  // Texts of the module voice/call.
  microphoneWasDisconnectedAnother = "The microphone was disconnected. Another microphone is in use now.",
  couldntTranscribeSayAgain = "Couldn’t transcribe your speech. Say it again.",

  // Texts of the module voice/connection.
  yourOrganizationMayHaveTooMany = "Your organization may have too many open voice connections, or a proxy blocks WebSockets.",

  // Texts of the module voice/panel.
  speaking = "Speaking",
  microphone = "Microphone",
  agent = "Agent",
  endSpeaking = "End speaking",
  end = "End",
  stopTheAnswer = "Stop the answer",
  stop = "Stop",
  createSecretForSpeaking = "Create a client secret for voice",
  agentWantsToUse = "The agent wants to use a tool and needs your decision. Approve or reject it above, then continue.",
  speakAgain = "Speak again",
  tryAgain = "Try again",
  continueByText = "Continue by text",
  waitingForMicrophone = "Waiting for the microphone",
  connecting = "Connecting",
  ending = "Ending",
  ended = "Ended",
  youAreSpeaking = "You are speaking",
  agentIsSpeaking = "The agent is speaking",
  transcribing = "Transcribing",
  thinking = "Thinking",
  waitingForYourDecision = "Waiting for your decision",
  waitingForTheClient = "Waiting for the client",
  muted = "Muted",
  listening = "Listening",
  waitingForTheMicrophone = "Waiting for the microphone.",
  youAreMuted = "You are muted.",
  youCanSpeak = "You can speak.",

  // Texts of the module voice/speak.
  speak = "Speak",
  speakVoiceIsOff = "Speak: voice is off",
  close = "Close",
  askAdminOfOrganization = "Ask an admin of the organization to switch voice on in the agent’s settings, under Tools.",
  switchOnVoice = "Switch on voice",
  openTools = "Open tools",
  enableAndSpeak = "Enable and speak",
  voiceIsOff = "Voice is off. With voice on, everyone who may chat with the agent may also speak with it, here and over the API.",

  // Texts of the module voice/spoken.
  yourMessageWasNotAccepted = "Your message was not accepted.",
  connectionWasLost = "The connection was lost before the agent could answer. Send the message again.",
  conversationEndedBeforeAgent = "The session ended before the agent could answer. You can send the message as text.",

  // Texts of the module voice/trouble.
  microphoneBlockedOnThisInsecure = "Microphone blocked on this insecure page",
  openThisPageOver = "Open this page over https, or as http://localhost on this machine.",
  microphoneBlockedByBrowser = "Microphone blocked by the browser",
  allowMicrophoneInBrowsers = "Allow the microphone in the browser’s address bar, and for the browser in your system’s settings. Then try again.",
  noMicrophoneFound = "No microphone found",
  connectMicrophoneOrSwitch = "Connect a microphone or switch it on, then try again.",
  microphoneUnavailable = "Microphone unavailable",
  anotherProgramMayBeUsing = "Another program may be using the microphone, or the microphone was unplugged. Try again when it is free.",
  couldntOpenMicrophone = "Couldn’t open the microphone",
  browserGaveNoReason = "The browser gave no reason. Try again.",
  voiceIsOffForThisAgent = "Voice is off for this agent",
  switchItOnInAgents = "Switch voice on in the agent’s settings, under Tools.",
  agentIsntOpenToPeople = "This agent isn’t open to people",
  allowPeopleInAgents = "Allow People in the agent’s settings, under “Who may call it”.",
  tooManyConnections = "Too many connections",
  tryAgainInMoment = "Try again in a moment.",
  cantReachService = "Can’t reach the service",
  checkConnectionAndTry = "Check the connection and try again.",
  serviceBusy = "Service busy",
  couldntOpenVoiceConnection = "Couldn’t open a voice connection",
  speechIsUnavailable = "Speech is unavailable",
  noVoiceWorkerRole = "No voice worker (role voice) is available: none is running, TRANSCRIPTION_MODEL and SPEECH_MODEL are off, or all are busy. ",
  operatorCanFindReason = "The operator can find the reason with parley doctor. Continue by text, or try again in a moment.",
  maximumConversationTimeReached = "Maximum session time reached",
  conversationIsSavedSpeak = "The chat is saved. Speak again, and the agent remembers it.",
  connectionClosedAfterLong = "Connection closed after a long silence",
  speakAgainWhenYou = "Speak again when you like.",
  connectionTooSlow = "Connection too slow for speech",
  continueByTextOrTry = "Continue by text, or try again.",
  tooManyRequests = "Too many requests",
  youAreSignedOut = "You are signed out",
  signInAgain = "Sign in again to speak.",
  serviceClosedConnection = "The service closed the connection",
  serviceGaveNoReason = "The service gave no reason. Try again.",
  connectionLost = "Connection lost",
  reconnectingFailedConversation = "Reconnecting failed. The chat is saved. Continue by text, or try again.",
  agentsVoiceIsUnknown = "The agent’s voice is unknown to the speech service, so the default voice is used. Change it in the agent’s settings, under Tools.",
  answerCouldNotBeSpoken = "The answer could not be spoken.",
}

// Texts of the module voice/call.
export const couldntTranscribeYourSpeech = (reason: string): string => `Couldn’t transcribe your speech: ${reason}`;

// Texts of the module voice/panel.
export const muteM = () => <>Mute<kbd aria-hidden="true">M</kbd></>;
export const offlineSpeechRecognitionExpect = () => <>Speech is recognized offline: only English, and with more errors. For better recognition, the operator can set <code>TRANSCRIPTION_MODEL</code>. To continue by text, choose End.</>;
export const connectionLostReconnectingTries = (tries: number, pauses: number): string => `Connection lost, reconnecting (${tries}/${pauses})`;
export const connectionLostReconnectingOf = (tries: number, pauses: number): string => `Connection lost. Reconnecting, ${tries} of ${pauses}.`;
export const lastAnswerStarted = (took: string): string => `Last answer started after ${took} s`;
export const labelLevel = (label: string): string => `${label} level`;
export const microphoneN = (n: number): string => `Microphone ${n}`;

// Texts of the module voice/speak.
export const peopleMayNowSpeak = (name: string): string => `People may now speak with “${name}”.`;
export const voiceIsOffFor = (name: string): string => `Voice is off for “${name}”`;
export const switchOnVoiceFor = (name: string): string => `Switch on voice for “${name}”?`;

// Texts of the module voice/trouble.
export const tryAgainInS = (retryAfter: number): string => `Try again in ${retryAfter} s.`;
