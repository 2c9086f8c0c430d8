// The texts of the try-it console of the API reference, and of the buttons that copy code.

export enum Words {
  copy = "Copy",
  copied = "Copied",
  selected = "Selected. Press Ctrl+C.",
  tryIt = "Try it",
  body = "Body",
  send = "Send",
  stop = "Stop",
  response = "Response",
  sending = "Sending…",
  stopped = "Stopped.",
  pathNeedsSlash = "The path must begin with a slash.",
  onlyThisService = "The console sends requests only to this service.",
  signIn = "Sign in to the dashboard in this browser, then send the request again.",
  cantReachService = "Can't reach the service. Check the connection and try again.",
  noBody = "The response has no body.",
  restNotShown = "… The rest of the response is not shown.",
}

export const tryExample = (example: string): string => `Try it: ${example}`;
export const request = (example: string): string => `Request: ${example}`;
export const example = (operation: string, title: string): string => `${operation} (${title})`;
export const pathAndQuery = (method: string): string => `${method} path and query`;
export const responded = (status: number, reason: string, ms: number): string =>
  `${[status, reason].join(" ").trim()}, headers after ${ms} ms.`;
