// The texts of the organization page.
import type { ComponentChildren } from "preact";
import { many } from "./plural";

export enum Words {
  // Texts of the module pages/org.
  access = "Access",
  usage = "Usage",
  notifications = "Notifications",
  organization = "Organization",
  rename = "Rename",
  newOrganization = "New organization",
  organizationId = "Organization id",
  copyOrganizationsId = "Copy the organization’s id",
  renameTheOrganization = "Rename the organization",
  createAnOrganization = "Create an organization",
  cancel = "Cancel",
  createOrganization = "Create organization",
  youBecomeItsOwner = "You become the owner of the new organization, and the dashboard switches to it.",
  name = "Name",

  // Texts of the module pages/org/budgets.
  theOrganization = "The organization",
  anAgent = "An agent",
  anApiKey = "An API key",
  anAutomation = "An automation",
  cost = "Cost",
  tokens = "Tokens",
  runs = "Runs",
  sandboxSeconds = "Sandbox seconds",
  day = "Day",
  month = "Month",
  budgets = "Budgets",
  callStartsOnlyIfItsWorst = "A call starts only if its maximum usage fits the budget. This amount is reserved before the call.",
  listTheBudgets = "List the budgets",
  newBudget = "New budget",
  noBudgetsYet = "No budgets yet",
  withoutBudgetOnlyLimits = "A budget limits usage per day or month. When the budget is used up, new runs are refused with status 429 until it resets. Without a budget, only the limits of each single run apply.",
  budgetDeleted = "Budget deleted.",
  edit = "Edit",
  deleteThisBudget = "Delete this budget?",
  usedUpNewRuns = "Used up: new runs are refused. Resets ",
  resets = "Resets ",
  editTheBudget = "Edit the budget",
  changeTheBudget = "Change the budget",
  createTheBudget = "Create the budget",
  save = "Save",
  createBudget = "Create budget",
  appliesTo = "Applies to",
  agent = "Agent",
  apiKey = "API key",
  automation = "Automation",
  automationsXAutomationId = "The automation’s x-automation-id, or the webhook’s name.",
  metric = "Metric",
  period = "Period",
  limit = "Limit",
  mustBeNumber = "must be a number",
  mustBeAmount = "must be an amount, such as 0.50 or 0,50",
  with0Nothing = "With 0, no runs are allowed. Days and months are in UTC.",
  deleteIt = "Delete",

  // Texts of the module pages/org/endpoint.
  allAgents = "All agents",
  editTheEndpoint = "Edit the endpoint",
  newEndpoint = "New endpoint",
  changeTheEndpoint = "Change the endpoint",
  createTheEndpoint = "Create the endpoint",
  createEndpoint = "Create endpoint",
  url = "URL",
  publicHttpsUrl = "A public https URL.",
  description = "Description",
  optionalShownOnlyHere = "Optional. Shown only here.",
  notifyWhen = "Notify when",
  theEvents = "The events",
  runsOf = "Runs of",

  // Texts of the module pages/org/invitations.
  yourInvitations = "Your invitations",
  invitationsToYourEmail = "Invitations from other organizations to your email address.",
  toAcceptOrDecline = "To accept or decline an invitation, open the link that you received. Invitations are listed here after your email address is verified, for example by signing in with your organization’s account.",
  youHaveNoOpen = "You have no open invitations.",
  role = "Role",
  expires = "Expires",
  actions = "Actions",
  accept = "Accept",
  decline = "Decline",
  itsLinkStopsWorking = "The invitation’s link stops working.",

  // Texts of the module pages/org/keys.
  apiKeys = "API keys",
  listTheKeys = "List the API keys",
  programsCallParley = "Programs call Parley with an API key. A key is shown once, when it is created.",
  newKey = "New key",
  noApiKeysYet = "No API keys yet",
  createAKey = "Create a key",
  withKeyServerScheduler = "With an API key, your servers, schedulers and other programs can chat with agents and run them.",
  key = "Key",
  actsAs = "Acts as",
  you = "you",
  theOrganizationLower = "the organization",
  lastUsed = "Last used",
  rotate = "Rotate",
  newKeyReplaces = "A new key replaces the old key, which stays valid for a day.",
  revoke = "Revoke",
  programsThatUseKey = "Programs that use the key are refused within five seconds.",
  never = "Never",
  in7Days = "In 7 days",
  in30Days = "In 30 days",
  in90Days = "In 90 days",
  inAYear = "In a year",
  theOrganizationOption = "The organization",
  youInAllYourOrganizations = "You, in all organizations",
  newApiKey = "New API key",
  createKey = "Create key",
  itsPurposeForExample = "The purpose of the key, for example nightly reports.",
  itActsAs = "Acts as",
  keyHasAdminRights = "The key has the rights of an admin of this organization.",
  requestsWithItMustName = "Requests with this key must send an organization id in the header x-organization-id.",
  iHaveSavedIt = "I have saved it",
  itIsNotShown = "The key is not shown again, because only its hash is stored.",
  theNewKey = "the new key",
  tryIt = "Try it:",
  commandThatListsAgents = "a command that lists the agents",

  // Texts of the module pages/org/limits.
  demoVisitors = "Demo visitors",
  peopleAndApiKeys = "People and API keys",
  personWithAllSessions = "A person, over all sessions and API keys",
  automations = "Automations",
  aWidgetVisitor = "A widget visitor",
  widgetsFromOneIp = "All widget visitors from one IP address",
  anAgentsWidgets = "An agent’s widgets",
  newVisitorsToAgents = "New visitors to an agent’s widgets",
  limits = "Limits",
  setByOperator = "The operator of this service sets these limits.",
  readTheLimits = "Read the limits",
  requests = "Requests",
  requestsFrom = "Requests from",
  atMost = "At most",
  aMinute = "a minute",
  countedPer = "Counted per",
  documents = "Documents",
  totalSizeOfDocuments = "Total size of documents",

  // Texts of the module pages/org/members.
  memberChatViewAgents = "Member: can chat, view agents and documents, and see their own sessions",
  adminAlsoEditAgents = "Admin: can also edit agents, documents and API keys, and see all runs",
  ownerAlsoManageMembers = "Owner: can also manage members and the organization",
  sendThisLink = "Send this link to the person that you invited. Parley sends no email. Anyone with the link can accept the invitation.",
  members = "Members",
  listTheMembers = "List the members",
  allMembersSeeAgents = "All members can see the agents and documents. Their roles grant further rights.",
  inviteAMember = "Invite a member",
  person = "Person",
  since = "Since",
  invited = "invited",
  done = "Done",
  theLink = "the link",
  sendThisLinkToThem = "Send this link to the person, who can set a new password with it.",
  leave = "Leave",
  withdraw = "Withdraw",
  remove = "Remove",
  changeRole = "Change role",
  resetPassword = "Reset password",
  youGetLink = "You get a link to send to this person. The old password works until they use the link.",
  leaveTheOrganization = "Leave the organization?",
  onlyOwnerCannotLeave = "You are the only owner. To leave, first make another member an owner.",
  youLoseAccessImmediately = "You lose access to the organization immediately.",
  invitationLinkStopsWorking = "The invitation link stops working.",
  theyLoseAccessWithin = "The member loses access to the organization within five seconds.",
  changeARole = "Change a role",
  invite = "Invite",
  emailAddress = "Email address",
  youGetLinkToSend = "You get a link to send to this person, who becomes a member by accepting the invitation.",

  // Texts of the module pages/org/messages.
  noMessagesYetSend = "No messages yet. Send a test to try the endpoint.",
  event = "Event",
  status = "Status",
  attempts = "Attempts",
  response = "Response",
  created = "Created",
  listTheMessages = "List the messages",
  noneYet = "none yet",
  messageIsBeingSent = "The message is being sent again with the same id.",
  message = "Message",
  sendMessageAgain = "Send the message again",
  sendAgain = "Send again",
  id = "Id",
  copyMessagesId = "Copy the message’s id",
  delivered = "Delivered",
  nextAttempt = "Next attempt",
  thePayload = "the payload",

  // Texts of the module pages/org/notifications.
  itGets = "It gets",
  theyGet = "They get",
  parleyNotifiesYourServices = "Parley notifies your services of events. Messages are signed according to Standard Webhooks, and resent if a delivery fails.",
  listTheEndpoints = "List the endpoints",
  noEndpointsYet = "No endpoints yet",
  endpointIsUrl = "An endpoint is a URL of your service. It gets a POST request when a run finishes or waits for a person, or when a document is ready, so your service doesn’t need to poll. Each message has a signature, and an id that stays the same on retries.",
  copyThisSecretNow = "Copy this secret now",
  yourServiceUses = "Your service uses the secret to verify that messages come from Parley. The secret is not shown again.",
  theSecret = "the secret",
  nothingDeliveredYet = "Nothing delivered yet",
  sincePart = " since",
  endpointEnabledWaitingMessages = "Endpoint enabled. Waiting messages are being sent.",
  thisEndpointIsDisabled = "This endpoint is disabled.",
  serviceDisabledThisEndpoint = "Parley disabled this endpoint.",
  enableAgain = "Enable again",
  enableTheEndpoint = "Enable the endpoint",
  testSentSeeMessages = "Test sent. See Messages for the result.",
  endpointIsDeleted = "The endpoint is deleted.",
  messages = "Messages",
  sendATest = "Send a test",
  rotateTheSecret = "Rotate the secret",
  newSecretIsGenerated = "A new secret is generated and shown once. For a day, messages are signed with both secrets.",
  disable = "Disable",
  nothingIsSent = "Nothing is sent to this endpoint until you enable it again.",
  messagesThatHaveNotBeenSent = "Messages that have not been sent yet are discarded.",

  // Texts of the module pages/org/sessions.
  yourLoginSessions = "Your login sessions",
  browsersAndPrograms = "The browsers and programs that are signed in to your account. If you don’t recognize a session, end it, and ask an admin for a link to set a new password.",
  browserOrProgram = "Browser or program",
  thisOne = "this one",
  ipAddress = "IP address",
  endThisSession = "End this session",
  endThisSessionQuestion = "End this session?",
  youWillBeSigned = "You will be signed out here.",
  browserOrProgramThatUses = "The browser or program that uses this session is signed out within five seconds.",
  unknown = "unknown",
  end = "End",

  // Texts of the module pages/org/usage.
  lastDay = "Last day",
  days7 = "7 days",
  days30 = "30 days",
  days90 = "90 days",
  agents = "Agents",
  none = "None",
  allApiKeys = "All API keys and people",
  peopleWithoutKey = "People without a key",
  allRuns = "All runs",
  noAutomation = "No automation",
  readTheUsage = "Read the usage",
  time = "Time",
  by = "By",
  others = "Others",
  failed = "Failed",
  sandbox = "Sandbox",
  failedOrTimedOut = "Failed or timed out",
  tokensInOut = "Tokens in / out",
  sandboxTime = "Sandbox time",
  medianTime95thPercentile = "Median time / 95th percentile",
  timeToAnswer = "Time to answer",
  showAsTable = "Show as a table",
  hour = "Hour",
  median = "Median",
  percentile95th = "95th percentile",
}

// Texts of the module pages/org.
export const otherOrganizationsCantSee = (name: string): string => `${name}. Other organizations can’t see its agents, documents, sessions and API keys.`;
export const youArePart = (part: string): string => `You are ${part}.`;

/** The roles of members. */
export const roles: Record<string, string> = { member: "member", admin: "admin", owner: "owner" };

/** The roles of members with the indefinite article, such as "an admin". */
export const someRole: Record<string, string> = { member: "a member", admin: "an admin", owner: "an owner" };

/** The subjects that rate limits apply to. */
export const counted: Record<string, string> = {
  credential: "session or API key", user: "person", organization: "organization", address: "IP address", visitor: "visitor", agent: "agent",
};

/** The events of notifications. */
export const events: Record<string, string> = {
  "run.completed": "A run completed", "run.failed": "A run failed or timed out", "run.requires_action": "A run is waiting for a person",
  "knowledge.ready": "A document is ready", "knowledge.failed": "A document failed", ping: "A test",
};

// Texts of the module pages/org/budgets.
export const amountInCurrency = (currency: string): string => `An amount in ${currency}, for example 25 or 0.50. With 0, no runs are allowed. Days and months are in UTC.`;
export const noRunHadCost = (prices: ComponentChildren) => <>No run of the last 30 days had a cost, so a budget of costs has no effect yet. {prices}</>;
export const whoseLabelPerPeriod = (whose: string, label: string, period: string): string => `${whose}: ${label} per ${period}`;
export const editTitle = (title: string): string => `Edit ${title}`;
export const deleteTitle = (title: string): string => `Delete ${title}`;
export const thisCapIsRemoved = (title: string): string => `${title}. This limit no longer applies.`;
export const amountOfAmountUsed = (amount: string, amount2: string): string => `${amount} of ${amount2} used`;
export const amountReserved = (amount: string): string => `, ${amount} reserved`;

// Texts of the module pages/org/invitations.
export const youDeclinedInvitationFrom = (name: string): string => `You declined the invitation from “${name}”.`;
export const acceptInvitationFrom = (name: string): string => `Accept the invitation from ${name}`;
export const declineInvitationFrom = (name: string): string => `Decline the invitation from ${name}`;
export const declineTheInvitationFrom = (name: string): string => `Decline the invitation from “${name}”?`;

// Texts of the module pages/org/keys.
export const nameIsRevoked = (name: string): string => `“${name}” is revoked.`;
export const rotateName = (name: string): string => `Rotate ${name}`;
export const rotateNameQuestion = (name: string): string => `Rotate “${name}”?`;
export const revokeName = (name: string): string => `Revoke ${name}`;
export const revokeNameQuestion = (name: string): string => `Revoke “${name}”?`;
export const copyApiKeyNow = (name: string): string => `Copy the API key “${name}” now`;

// Texts of the module pages/org/limits.
export const requestsInPart = (requests: string, part: string): string => `${requests} in ${part}`;
export const usedOfMax = (used: string, max: string): string => `${used} of ${max}`;
export const usedWithoutLimit = (used: string): string => `${used}, no limit`;
export const runMustFinishWithin = (deadlineSeconds: string, perOrganization: string, perCredential: string, perOrganization2: string): string => `A run must finish within ${deadlineSeconds} of its acceptance. Each server allows ${perOrganization} open streams, ${perCredential} per credential, and ${perOrganization2} voice connections.`;

// Texts of the module pages/org/members.
export const invitationForEmail = (email: string): string => `Invitation for ${email}`;
export const emailIsNowPart = (email: string, part: string): string => `${email} is now ${part}.`;
export const andIsValidUntil = (until: string): string => `, and is valid until ${until}`;
export const linkIsShownOnce = (text: string, until: string): string => `${text} The link is shown once${until}.`;
export const emailWasRemoved = (email: string): string => `${email} was removed.`;
export const newPasswordForEmail = (email: string): string => `New password for ${email}`;
export const changeRoleOf = (email: string): string => `Change the role of ${email}`;
export const resetPasswordOf = (email: string): string => `Reset the password of ${email}`;
export const resetThePasswordOf = (email: string): string => `Reset the password of ${email}?`;
export const withdrawInvitationFor = (email: string): string => `Withdraw the invitation for ${email}?`;
export const removeEmail = (email: string): string => `Remove ${email}?`;

// Texts of the module pages/org/messages.
export const messagesToUrl = (url: string): string => `Messages to ${url}`;
export const eventMessageId = (event: string, id: string): string => `${event}, message ${id}`;

// Texts of the module pages/org/notifications.
export const notificationEndpointWasDisabled = (description: string | undefined): string => `The notification endpoint ${description} was disabled.`;
export const notificationEndpointsWereDisabled = (off: number): string => `${off} notification endpoints were disabled.`;
export const noMessagesSeeWhy = (disabled: string, gets: string) => <><strong>{disabled}</strong> {gets} no messages. <a href="/dashboard/org/notifications">See why</a></>;
export const lastDeliveredTime = (time: ComponentChildren) => <>Last delivered {time}</>;
export const attemptsFailedPart = (failures: number, part: string): string => `; ${many(failures, "attempt")} failed${part}`;
export const alsoSignedWithPrevious = (time: ComponentChildren) => <>Also signed with the previous secret, which expires {time}.</>;
export const onlyName = (name: string): string => `Only ${name}`;
export const enableAgainUrl = (url: string): string => `Enable again: ${url}`;
export const sendTestTo = (url: string): string => `Send a test to ${url}`;
export const editUrl = (url: string): string => `Edit ${url}`;
export const rotateSecretOf = (url: string): string => `Rotate the secret of ${url}`;
export const rotateTheSecretOf = (description: string): string => `Rotate the secret of ${description}?`;
export const disableUrl = (url: string): string => `Disable ${url}`;
export const disableDescription = (description: string): string => `Disable ${description}?`;
export const deleteUrl = (url: string): string => `Delete ${url}`;
export const deleteDescription = (description: string): string => `Delete ${description}?`;

// Texts of the module pages/org/sessions.
export const endSessionFrom = (address: string): string => `End the session from ${address}`;
export const browserOnSystem = (browser: string, system: string): string => `${browser} on ${system}`;

// Texts of the module pages/org/usage.
export const usageByOne = (one: string): string => `Usage by ${one}`;
export const perInterval = (interval: string): string => `per ${interval}`;
export const noRunsInThisPeriod = (interval: string): string => `No runs in this period. Each bar shows the number of runs of one ${interval}, by result.`;
export const noRunFinishedInThisPeriod = (interval: string): string => `No run finished in this period. The lines show the median and the 95th percentile of the time from acceptance to result, for each ${interval}.`;
export const usageByInterval = (interval: string): string => `Usage by ${interval}`;
