// The texts of the parts that most pages use.

export enum Words {
  // Texts of the module ui/button.
  thisPageFailedReload = "This page failed. Reload it and try again.",

  // Texts of the module ui/confirm.
  goBack = "Go back",
  thisCannotBeUndone = "This cannot be undone.",

  // Texts of the module ui/copy.
  copy = "Copy",
  browserBlockedCopyingSelect = "The browser blocked copying. Select the text and copy it manually.",
  copied = "Copied",

  // Texts of the module ui/curl.
  apiRequests = "API requests",
  api = "API",

  // Texts of the module ui/dialog.
  close = "Close",
  yourChangesWillBeLost = "Your changes will be lost.",
  leaveWithoutSaving = "Leave without saving?",
  stay = "Stay",
  leave = "Leave",

  // Texts of the module ui/parts.
  readTheGuide = "Read the guide",
  details = "Details",
  requestWasRefusedCorrect = "The request was refused. Correct these fields:",
  tryAgain = "Try again",
  loading = "Loading",
  loadingText = "Loading …",
  showMore = "Show more",
  never = "never",
  justNow = "just now",

  // Texts of the module ui/requests.
  yourOrganization = "your organization",
  apiReference = "API reference",

  // Texts of the module ui/toasts.
  dismiss = "Dismiss",

  // Texts of the module ui/uploads.
  fileIsEmpty = "The file is empty.",
}

// Texts of the module ui/copy.
export const copyLabel = (label: string): string => `Copy: ${label}`;

// Texts of the module ui/parts.
export const offlineModelIsFree = (href: string) => <>The offline model is free. For others, the operator <a href={href}>sets prices</a>.</>;
export const tryAgainInS = (retryAfter: number): string => `Try again in ${retryAfter} s.`;
export const requestRequestId = (requestId: string) => <>Request <code>{requestId}</code></>;
export const milliseconds = (ms: number): string => `${ms} ms`;
export const seconds = (s: string): string => `${s} s`;
export const minutesAndSeconds = (minutes: number, s: number): string => `${minutes} min` + (s === 0 ? "" : ` ${s} s`);
export const hoursAndMinutes = (hours: number, minutes: number): string => `${hours} h` + (minutes === 0 ? "" : ` ${minutes} min`);
export const bytes = (n: number): string => `${n} B`;
export const kibibytes = (n: string): string => `${n} KiB`;
export const mebibytes = (n: string): string => `${n} MiB`;
export const gibibytes = (n: string): string => `${n} GiB`;

// Texts of the module ui/requests.
export const setParleySession = () => <>Set <code>PARLEY_SESSION</code> to the token that <code>POST /api/auth/login</code> returns.</>;
export const setParleyApiKey = (name: string) => <>Set <code>PARLEY_API_KEY</code> to an API key of {name}. <a href="/dashboard/org">Create one under Organization</a>.</>;

// Texts of the module ui/uploads.
export const filesSizeIsLimit = (size: string): string => `The file’s size is ${size}. The limit is 20 MiB.`;
