// The texts of the pages of a webhook.
import type { ComponentChildren } from "preact";

export enum Words {
  // Texts of the module pages/hook.
  deliveries = "Deliveries",
  setup = "Setup",
  settings = "Settings",
  automations = "Automations",
  webhook = "Webhook",
  webhookNotFound = "Webhook not found",
  thisWebhookDoesntExist = "Couldn’t find this webhook",
  webhooksAreForAdmins = "Only admins can manage webhooks",
  goToAutomations = "Go to automations",
  itWasDeleted = "The webhook was deleted, or it belongs to another of your organizations.",
  webhooksUseOrganizationsApi = "Webhooks use the organization’s API keys. Ask an admin to show or change this webhook.",
  copyWebhooksId = "Copy the webhook’s id",
  readThisWebhook = "Read this webhook",
  thisWebhookIsDisabled = "This webhook is disabled. Deliveries to its URL are refused until you enable it.",
  below = "below.",
  disable = "Disable",
  deliveriesAreRefused = "Deliveries are refused until you enable the webhook again. Most senders stop retrying after a while.",
  enable = "Enable",
  itsUrlAndItsLog = "The webhook’s URL and log are deleted permanently. Runs that the webhook started are kept.",
  saved = "Saved.",
  save = "Save",
  saveTheWebhook = "Save the webhook",
  deleteIt = "Delete",

  // Texts of the module pages/hooks/allow.
  allowAutomations = "Allow automations",

  // Texts of the module pages/hooks/conditions.
  is = "is",
  isNot = "is not",
  isOneOf = "is one of",
  contains = "contains",
  exists = "exists",
  startRunOnlyIf = "Start a run only if",
  everyDeliveryStartsRun = "Every delivery starts a run.",
  theFilter = "The filter",
  addACondition = "Add a condition",
  dataStatus = "data.status",
  yes = "yes",
  no = "no",
  openedReopened = "opened, reopened",
  paid = "paid",
  coalesceDeliveriesIntoOneRun = "Coalesce deliveries into one run",
  forSendersThatReport = "For senders that report every small change. Deliveries with the same key are combined into one run, which gets the newest payload and a list of all deliveries.",
  coalescingKey = "Coalescing key",
  templateLikeMessageDeliveries = "A template, like the message. Deliveries for which the template produces the same key are coalesced.",
  waitForMoreSeconds = "Wait for more deliveries (seconds)",
  afterNewestDelivery1 = "Counted from the newest delivery: 1 to 3,600 seconds.",
  waitAtMostSeconds = "Wait at most (seconds)",
  afterFirstDelivery = "Counted from the first delivery: at most 3,600 seconds.",
  coalescing = "Coalescing",

  // Texts of the module pages/hooks/deliveries.
  all = "All",
  accepted = "Accepted",
  coalesced = "Coalesced",
  filtered = "Filtered",
  answered = "Answered",
  refused = "Refused",
  rejected = "Rejected",
  show = "Show",
  listTheDeliveries = "List the deliveries",
  noDeliveriesYet = "No deliveries yet",
  noDeliveriesWithThisStatus = "No deliveries with this status",
  openSetup = "Open setup",
  setUpSender = "The first delivery appears here as soon as it arrives. Set up the sender, or send a test. Deliveries without a valid signature or token appear here as rejected.",
  chooseAllToSee = "Choose All to see the other deliveries.",
  received = "Received",
  status = "Status",
  event = "Event",
  delivery = "Delivery",
  run = "Run",
  openRun = "Open run",
  none = "none",
  size = "Size",
  redeliveredAsNewRun = "Redelivered as a new run.",
  deliverItAgain = "Deliver it again",
  redeliver = "Redeliver",
  id = "Id",
  copyDeliverysId = "Copy the delivery’s id",
  readThisDelivery = "Read this delivery",
  thePayload = "the payload",
  payloadIsNotStored = "The payload is not stored. Payloads larger than 1 MiB and those of rejected deliveries are never stored.",

  // Texts of the module pages/hooks/form.
  nameAndAgent = "Name and agent",
  messageToAgent = "Message to the agent",
  textWithValues = "A text with values from the payload. The whole payload is attached as data.",
  keyAnswers = "API key, answers and coalescing",
  keySecretAnswers = "API key, secret, answers and coalescing",
  answersMatchIt = "Answers are JSON that matches it, and are checked before their run completes. Leave empty to use the schema in the agent’s settings, if there is one.",
  whenToRun = "When to run",
  newKeyForThisWebhook = "A new key for this webhook",
  name = "Name",
  webhooksRunsAreGrouped = "The webhook’s runs are grouped under this name.",
  agent = "Agent",
  deletedAgent = "Deleted agent",
  apiKey = "API key",
  revokedKey = "Revoked key",
  apiKeyOfOrganization = "An API key of the organization. If it is revoked, the webhook stops within five seconds.",
  headerWithToken = "Header with the token",
  headerWithSignature = "Header with the signature",
  headerWithDeliverysId = "Header with the delivery’s id",
  xDeliveryId = "X-Delivery-Id",
  ifEmptyBodyIdentifies = "If empty, deliveries are identified by their body.",
  sender = "Sender",

  // Texts of the module pages/hooks/list.
  webhooks = "Webhooks",
  agentsThatRun = "Agents that run on events from other services: GitHub, Stripe, Slack, and any service that signs its requests.",
  listTheWebhooks = "List the webhooks",
  newWebhook = "New webhook",
  noWebhooksYet = "No webhooks yet",
  webhookIsUrl = "A webhook is a URL and a secret for one sender. Each signed delivery runs an agent once, even if it is sent several times. The agent treats the payload as data, never as instructions.",
  lastDelivery = "Last delivery",
  state = "State",

  // Texts of the module pages/hooks/message.
  message = "Message",
  noPreviewBecauseSample = "No preview, because the sample is not valid JSON.",
  samplePayload = "Sample payload",
  sampleEvent = "Sample event",
  sendersNameForEvent = "The sender’s name for the event, available as @event.",
  sampleJson = "Sample JSON",
  pasteYourOwnPayload = "Paste your own payload. It is not saved.",
  isNotValidJson = "is not valid JSON",
  insertFieldFromSample = "Insert a field from the sample",
  previewWithSample = "Preview with the sample data",
  empty = "empty",
  deliveryLikeThisStarts = "A delivery like this starts a run.",
  deliveryLikeThisIsFiltered = "A delivery like this is filtered out and starts no run.",

  // Texts of the module pages/hooks/setup.
  theSender = "the sender",
  address = "URL",
  theAddress = "the URL",
  contentType = "Content type",
  theContentType = "the content type",
  sendDeliveryFromShell = "Send a delivery from a shell, with the secret in the variable SECRET",
  commandThatSendsDelivery = "a command that sends a delivery",
  verifiesSenderItWasShown = "Parley uses the secret to verify the sender. It was shown once, when it was created.",
  setTheSecret = "Set the secret",
  rotateTheSecret = "Rotate the secret",
  notAtAll = "Not at all",
  forAnHour = "For an hour",
  forADay = "For a day",
  forAWeek = "For a week",
  secretIsSet = "The secret is set.",
  copyThisSecretNow = "Copy this secret now",
  iHaveSavedIt = "I have saved it",
  enterItInSenders = "Enter the secret in the sender’s webhook settings. The secret is not shown again.",
  theSecret = "the secret",
  cancel = "Cancel",
  generateNewSecret = "Generate a new secret",
  ifEmptySecret = "If empty, a secret is generated and shown once.",
  alsoAcceptPreviousSecret = "Also accept the previous secret",
  deliveriesKeepWorking = "For this time, deliveries with the previous secret are accepted, too.",

  // Texts of the module pages/hooks/sources.
  slackQuestion = "<@U0> What is 6 * 7?",
  kimLarsen = "Kim Larsen",
  storkLamp = "Stork lamp",
  github = "GitHub",
  issuesPullRequestsPushes = "Issues, pull requests, pushes and other events of a repository or an organization.",
  secret = "Secret",
  inRepositoryOrOrganization = "In the repository or the organization, open Settings › Webhooks › Add webhook.",
  payloadUrl = "Payload URL",
  enterPayloadUrl = "Enter the payload URL, the content type and the webhook’s secret.",
  chooseEventsGithubImmediately = "Choose the events. GitHub immediately sends a ping, which appears under Deliveries.",
  githubDoesNotResend = "GitHub does not resend a delivery automatically. A delivery that cannot run immediately waits here instead of being refused.",
  lampDoesNotShine = "The lamp does not work",
  itArrivedOnMonday = "It arrived on Monday and does not light up.",
  stripe = "Stripe",
  endpointUrl = "Endpoint URL",
  paymentsDisputesInvoices = "Payments, disputes, invoices, subscriptions.",
  signingSecret = "Signing secret",
  inStripesDashboardOpen = "In Stripe’s dashboard, open Developers › Webhooks, and add an endpoint (a destination) with the webhook’s URL.",
  chooseEvents = "Choose the events.",
  stripeShowsEndpointsSigning = "Stripe shows the endpoint’s signing secret, which begins with whsec_. Paste it here.",
  stripeResendsDelivery = "Stripe resends a delivery for up to three days until it is accepted. Each delivery starts one run.",
  paymentOfDataObject = "A payment of {{data.object.amount}} {{data.object.currency}} (in the smallest unit) is disputed, for the reason {{data.object.reason}}. Say in two sentences what to do next.",
  slack = "Slack",
  requestUrl = "Request URL",
  mentionsAndMessagesThrough = "Mentions and messages, through the Events API of your own app.",
  inAppsSettingsOpen = "In the app’s settings, open Basic Information. Its signing secret is the secret of this webhook.",
  openEventSubscriptionsEnable = "Open Event Subscriptions, enable events, and enter the webhook’s URL as Request URL. Slack verifies the URL immediately.",
  subscribeToBotEvents = "Subscribe to bot events, for example app_mention, and reinstall the app.",
  slackExpectsResponseWithin = "Slack expects a response within three seconds. Parley sends it before the agent starts. To let the agent answer in the thread, add Slack’s chat.postMessage to the agent’s HTTP endpoints.",
  standardWebhooks = "Standard Webhooks",
  anySenderThatSigns = "Any sender that signs according to standardwebhooks.com, including Parley.",
  enterWebhooksUrl = "Enter the webhook’s URL in the sender’s webhook settings.",
  secretIsWhsecEnter = "The secret begins with whsec_. Enter it in the sender’s webhook settings, or enter the sender’s secret here.",
  headersAreWebhookId = "The headers are webhook-id, webhook-timestamp and webhook-signature.",
  signedHmac = "Signed (HMAC)",
  anySenderThatSignsBody = "Any sender that signs the body with HMAC-SHA256, in its own header.",
  enterWebhooksUrlAndSecret = "Enter the webhook’s URL and secret in the sender’s webhook settings.",
  ifSenderHasHeader = "If the sender sends the delivery’s id in a header, enter the header’s name under Settings, so that a repeated delivery does not start a second run. Otherwise, deliveries with equal bodies start only one run.",
  token = "Token",
  anySenderThatCanSend = "Any sender that can send a header with a fixed value, for example GitLab or a script.",
  tokenAuthenticatesSender = "A token authenticates the sender, but does not prove that the payload is unchanged. Prefer a signature if the sender supports it.",
  inRepositoryFullName = "In {{repository.full_name}} the issue {{issue.title}} was {{action}} by {{sender.login}}:\n\n{{issue.body}}\n\nSummarize it in two sentences and say which part of the shop it is about.",
  inChannelEventChannel = "In the channel {{event.channel}} the user {{event.user}} wrote to you:\n\n{{event.text}}\n\nAnswer in a few sentences.",
  typeOrderDataId = "{{type}}: the order {{data.id}} of {{data.customer.name}} over {{data.total}} {{data.currency}}. Write the confirmation.",

  // Texts of the module pages/hooks/test.
  sendATest = "Send a test",
  close = "Close",
  send = "Send",
  testIsHandledLike = "The test is handled like a real delivery: it is signed, verified and filtered, and runs the agent.",
  payload = "Payload",
  agentRuns = "The agent runs.",
  itWaitsToBeCoalesced = "The test delivery waits to be coalesced with other deliveries.",
  filterExcludesItSoNothing = "The filter excludes the test delivery, so no run starts.",
  treatedAsTestMessageOfSender = "Parley treated this as a test message of the sender (such as GitHub’s ping), so no run starts.",
  noRunStartsSee = "No run starts. See Deliveries for the reason.",
  deliveryWasRejected = "The delivery was rejected. See Deliveries for the reason.",

  // Texts of the module pages/hooks/unsaved.
  yourChangesWillBeLost = "Your changes will be lost.",

  // Texts of the module pages/newhook.
  eventInAnotherService = "An event in another service runs an agent.",
  webhooksUseOrganizationsApiKeys = "Webhooks use the organization’s API keys. Ask an admin to set up a webhook.",
  noAgentsYet = "No agents yet",
  createAnAgent = "Create an agent",
  webhookRunsOneOfYourAgents = "A webhook runs one of your agents. Create an agent first.",
  createWebhook = "Create webhook",
  createTheWebhook = "Create the webhook",
  done = "Done",
  tryIt = "Try it: this command sends a delivery, with the secret inside.",
  deliveriesAreRefusedUntilYou = "Deliveries are refused until you set the sender’s secret under Setup.",
}

// Texts of the module pages/hook.
export const lastDeliveryTime = (time: ComponentChildren) => <>Last delivery: {time}</>;
export const underSetup = (href: string) => <>under <a href={href}>Setup</a>.</>;
export const newestDeliveryWasRejected = (time: ComponentChildren, reason: string | undefined) => <><strong>The newest delivery was rejected</strong> ({time}){reason && `: ${reason}`}. Enter the webhook’s secret at the sender, or set a new secret</>;
export const nameIsEnabled = (name: string): string => `“${name}” is enabled.`;
export const nameIsDisabled = (name: string): string => `“${name}” is disabled.`;
export const nameIsDeleted = (name: string): string => `“${name}” is deleted.`;
export const disableName = (name: string): string => `Disable “${name}”?`;
export const enableName = (name: string): string => `Enable ${name}`;
export const deleteName = (name: string): string => `Delete “${name}”?`;

// Texts of the module pages/hooks/allow.
export const automationsMayRunName = (name: string): string => `Automations may run “${name}”.`;
export const automationsMayNowRun = (name: string): string => `Automations may now run “${name}”.`;
export const automationsMayNotRun = (name: string) => <><strong>Automations aren’t allowed to run “{name}”.</strong> Only people can call it, so triggers are refused.</>;
export const allowAutomationsToRun = (name: string): string => `Allow automations to run ${name}`;

// Texts of the module pages/hooks/conditions.
export const allConditionsMustMatch = () => <>All conditions must match. Deliveries that do not match appear in the log as filtered. <code>@event</code> is the sender’s name for the event.</>;
export const pathOfConditionNumber = (number: number): string => `Path of condition ${number}`;
export const comparisonOfConditionNumber = (number: number): string => `Comparison of condition ${number}`;
export const valueOfConditionNumber = (number: number): string => `Value of condition ${number}`;
export const removeConditionNumber = (number: number): string => `Remove condition ${number}`;
export const conditionNumber = (number: number): string => `Condition ${number}:`;

// Texts of the module pages/hooks/deliveries.
export const deliveryId = (id: string): string => `, delivery ${id}`;
export const rejectedDelivery = (reason: string): string => `, rejected: ${reason}`;
export const receivedDuplicatesTimes = (duplicates: number): string => `received ${duplicates} times`;
export const redeliveredStatus = (status: string): string => `Redelivered: ${status}.`;
export const receivedDuplicatesTimesPart = (duplicates: number): string => `, received ${duplicates} times`;
export const payloadBytes = (bytes: string): string => `Payload, ${bytes}`;

// Texts of the module pages/hooks/form.
export const automationsMayNotRunThese = (links: ComponentChildren) => <>Automations may run an agent if its settings allow “Schedulers and services”. Not allowed: {links}</>;
export const nameAutomationsNotAllowed = (name: string): string => `${name} (automations not allowed)`;

// Texts of the module pages/hooks/message.
export const pathsAreReplaced = () => <><code>{"{{a.b.0.c}}"}</code> is replaced by the payload’s value at that path, or by nothing if there is none. A message may have up to 2 MiB.</>;
export const insertPath = (path: string): string => `Insert ${path}`;
export const textBetweenAndComes = (part: string): string => `${part} Text between ⟦ and ⟧ comes from the sender. The agent treats it as data, not as instructions.`;

// Texts of the module pages/hooks/setup.
export const atPart = (part: string): string => `At ${part}`;
export const previousSecretIsAlso = (time: ComponentChildren) => <>The previous secret is also accepted. It expires {time}.</>;
export const secretThatShows = (title: string): string => `The secret that ${title} shows. If empty, a secret is generated.`;

// Texts of the module pages/hooks/sources.
export const senderMustSendHmac = (header: string): string => `The sender must send the HMAC-SHA256 of the raw body, as hex, in the header ${header} of each delivery.`;
export const senderMustSendToken = (header: string): string => `The sender must send the token in the header ${header} of each delivery.`;

// Texts of the module pages/newhook.
export const webhookName = (name: string): string => `Webhook ${name}`;
export const generatesItPaste = (title: string): string => `${title} generates it. Paste it here, or later under Setup.`;
export const setUpAtSender = (name: string): string => `Set up “${name}” at the sender`;
export const secretShownOnlyOnce = (secret: string): string => `${secret}, shown only once`;
