// The texts of the page of automations.
import type { ComponentChildren } from "preact";

export enum Words {
  // Texts of the module pages/automations.
  automations = "Automations",
  automationsAreForAdmins = "Only admins can manage automations",
  automationsUseOrganizationsApi = "Automations use the organization’s API keys, which only admins can create. Ask an admin to set up the automation, or to make you an admin.",
  listTheAutomations = "List the automations",
  agentsThatRun = "Agents that run on a schedule, or when another service sends a request.",
  automationsThatHaveRun = "Automations that have run",
  noAutomationHasRun = "No named automation has run yet",
  runAgentAsAutomation = "Run an agent as an automation",
  summarizeDay = "Summarize the day.",
  runs = "Runs",
  itsRunsAreNoLonger = "The automation’s runs are no longer stored.",
  noIdempotencyKey = "no idempotency key",
  showAllRuns = "Show all runs",

  // Texts of the module pages/automations/recipes.
  thisLineMayBeTooLong = " This line may be too long for cron. Save the command as a script, as shown under systemd, and let cron start the script.",
  cron = "cron",
  runsInMachinesTime = "The schedule uses the machine’s time zone. cron mails the output to the crontab’s owner.",
  systemd = "systemd",
  runsInMachinesTimeZone = "The schedule uses the machine’s time zone. A run missed while the machine was off starts after the next boot.",
  etcParleyEnvReadable = "/etc/parley.env, readable by root only",
  inAShell = "in a shell",
  githubActions = "GitHub Actions",
  runsInUtcOften = "The schedule uses UTC, and jobs often start some minutes late. The idempotency key is the workflow run’s id, so a repeated job gets the first run’s result. ",
  storeApiKey = "Store the API key in the repository’s secrets as PARLEY_API_KEY.",
  kubernetes = "Kubernetes",
  idempotencyKeyIsJobs = "The idempotency key is the job’s name, which Kubernetes derives from the scheduled minute. A restarted pod gets the first run’s result. ",
  requiresKubernetes127 = "Requires Kubernetes 1.27 or later.",
  inShellOnce = "in a shell, only once",
  webhookSender = "Webhook sender",
  forAnyService = "For any service that can set headers. Use its delivery id as the idempotency key, so that a repeated delivery does not start a second run. ",
  agentGetsAllOtherKeys = "The agent gets all other fields of input as data.",
  requestThatServiceSends = "the request that the service sends",
  sameFromShell = "the same request from a shell, with the delivery’s id in DELIVERY_ID",

  // Texts of the module pages/automations/setup.
  everyHour = "Every hour",
  everyDay = "Every day",
  everyMonday = "Every Monday",
  onFirstOfEveryMonth = "On the first of every month",
  hoursDefault24 = "24 hours (default)",
  days3 = "3 days",
  days7 = "7 days",
  daysMaximum30 = "30 days (maximum)",
  anySchedulerOrService = "Any scheduler or service that can send a request can run an agent. Choose the agent and the time, then copy the commands or the configuration for your scheduler.",
  setUp = "Set up",
  automationRunsOneOfYourAgents = "An automation runs one of your agents. Create an agent first.",
  createAnAgent = "Create an agent",
  agent = "Agent",
  automation = "Automation",
  automationsNameSent = "The automation’s name, sent as x-automation-id.",
  when = "When",
  atOnlyMinutesCount = "At (only the minutes are used)",
  at = "At",
  mustBeTimeSuch = "must be a time such as 07:30",
  keepResultsFor = "Keep results for",
  message = "Message",
  isRequired = "is required",
  mustContainOnlyPrintable = "must contain only printable characters",
  runItWith = "Run it with",
  requestRepeatedWithSame = "A repeated request with the same key and message gets the first run’s result and starts no second run. A request with the same key and another message is refused.",
  automationsNameItGroups = "The automation’s name. Its runs are grouped by this name, here and under Runs.",
  howManySecondsResult = "For how many seconds the result is stored after the run finishes. The default is 24 hours, the maximum is 30 days.",
}

// Texts of the module pages/automations.
export const automationHasName = (href: string) => <>An automation has a name, which a scheduler or service sends in the header <code>x-automation-id</code> when it runs an agent. It appears here after its first run. Runs without a name are only in the <a href={href}>list of runs</a>. Set an automation up below.</>;
export const timeNoLongerStored = (time: ComponentChildren) => <>{time} no longer stored</>;
export const lastRunsOfId = (id: string): string => `Last runs of ${id}`;
export const listRunsOf = (id: string): string => `List the runs of ${id}`;

// Texts of the module pages/automations/recipes.
export const workflow = (name: string): string => `Parley ${name}`;
export const monTime = (time: string): string => `Mon *-*-* ${time}`;
export const usrLocalBin = (unit: string): string => `/usr/local/bin/${unit}, with chmod 755`;
export const parleyYamlForKubectl = (slug: string): string => `parley-${slug}.yaml, for kubectl apply -f`;

// Texts of the module pages/automations/setup.
export const parleyApiKey = () => <><code>PARLEY_API_KEY</code> is an API key of the organization. <a href="/dashboard/org">Create one under Organization</a>. Use a separate key for each automation, so that you can revoke it separately.</>;
