// The services that send webhooks: their setup, example payloads, and default messages.
import type { HookFilter, HookSource } from "../../types";

export interface Example {
  event: string;
  payload: unknown;
}

export interface Source {
  title: string;
  what: string;
  /** Whether the service generates the secret; otherwise Parley does. */
  theirs: boolean;
  /** The service's name for the secret. */
  secret: string;
  /** The setup steps at the service, after the webhook exists in Parley. */
  steps: string[];
  /** How the service delivers. */
  note: string;
  example: Example;
  template: string;
  filter: HookFilter[];
  /** The default template of the coalescing key. */
  key: string;
}

const order = { id: "ord_1042", status: "paid", total: 129.5, currency: "EUR", customer: { name: "Kim Larsen", email: "kim@example.com" }, items: [{ sku: "LAMP-7", name: "Stork lamp", quantity: 1 }] };
const ordered = { type: "order.paid", timestamp: "2026-11-22T08:00:00Z", data: order };

export const sources: Record<HookSource, Source> = {
  github: {
    title: "GitHub", what: "Issues, pull requests, pushes and other events of a repository or an organization.", theirs: false, secret: "Secret",
    steps: [
      "In the repository or the organization, open Settings › Webhooks › Add webhook.",
      "Payload URL: the webhook's URL. Content type: application/json. Secret: the webhook's secret.",
      "Choose the events. GitHub immediately sends a ping, which appears under Deliveries.",
    ],
    note: "GitHub does not resend a delivery automatically. A delivery that cannot run immediately waits here instead of being refused.",
    example: {
      event: "issues",
      payload: {
        action: "opened",
        issue: { number: 17, title: "The lamp does not shine", body: "It arrived on Monday and stays dark.", html_url: "https://github.com/acme/shop/issues/17", user: { login: "kim" }, labels: [{ name: "bug" }] },
        repository: { full_name: "acme/shop" }, sender: { login: "kim" },
      },
    },
    template: "In {{repository.full_name}} the issue {{issue.title}} was {{action}} by {{sender.login}}:\n\n{{issue.body}}\n\nSummarize it in two sentences and say which part of the shop it is about.",
    filter: [{ path: "@event", op: "eq", value: "issues" }], key: "{{repository.full_name}}#{{issue.number}}",
  },
  stripe: {
    title: "Stripe", what: "Payments, disputes, invoices, subscriptions.", theirs: true, secret: "Signing secret",
    steps: [
      "In Stripe's dashboard, open Developers › Webhooks, and add an endpoint (a destination) with the webhook's URL.",
      "Choose the events.",
      "Stripe shows the endpoint's signing secret, whsec_…. Paste it here.",
    ],
    note: "Stripe resends a delivery for up to three days until it is accepted. Each delivery starts one run.",
    example: {
      event: "charge.dispute.created",
      payload: { id: "evt_1", type: "charge.dispute.created", livemode: false, data: { object: { id: "dp_1", amount: 1200, currency: "eur", reason: "fraudulent", charge: "ch_1" } } },
    },
    template: "A payment of {{data.object.amount}} {{data.object.currency}} (in the smallest unit) is disputed, for the reason {{data.object.reason}}. Say in two sentences what to do next.",
    filter: [{ path: "type", op: "eq", value: "charge.dispute.created" }], key: "{{data.object.id}}",
  },
  slack: {
    title: "Slack", what: "Mentions and messages, through the Events API of your own app.", theirs: true, secret: "Signing secret",
    steps: [
      "In the app's settings, open Basic Information. Its signing secret is the secret of this webhook.",
      "Open Event Subscriptions, enable events, and enter the webhook's URL as Request URL. Slack verifies the URL immediately.",
      "Subscribe to bot events, for example app_mention, and reinstall the app.",
    ],
    note: "Slack expects a response within three seconds, and gets it before the agent starts. To answer in the thread, give the agent chat.postMessage as an endpoint of httpRequest.",
    example: {
      event: "app_mention",
      payload: { type: "event_callback", event_id: "Ev0001", team_id: "T1", event: { type: "app_mention", channel: "C1", user: "U1", ts: "1763800000.000100", text: "<@U0> What is 6 * 7?" } },
    },
    template: "In the channel {{event.channel}} the user {{event.user}} wrote to you:\n\n{{event.text}}\n\nAnswer in a few sentences.",
    filter: [{ path: "event.type", op: "eq", value: "app_mention" }], key: "{{event.channel}}",
  },
  standard: {
    title: "Standard Webhooks", what: "Any sender that signs according to standardwebhooks.com, including Parley.", theirs: false, secret: "Signing secret",
    steps: [
      "Enter the webhook's URL in the sender's webhook settings.",
      "The secret is whsec_…. Enter it in the sender's webhook settings, or set the sender's secret here.",
    ],
    note: "The headers are webhook-id, webhook-timestamp and webhook-signature.",
    example: { event: "order.paid", payload: ordered },
    template: "{{type}}: the order {{data.id}} of {{data.customer.name}} over {{data.total}} {{data.currency}}. Write the confirmation.",
    filter: [{ path: "type", op: "eq", value: "order.paid" }], key: "{{data.id}}",
  },
  hmac: {
    title: "Signed (HMAC)", what: "Any sender that signs the body with HMAC-SHA256, in its own header.", theirs: false, secret: "Secret",
    steps: [
      "Enter the webhook's URL and secret in the sender's webhook settings.",
      "The sender must send the HMAC-SHA256 of the raw body, as hex, in the signature header.",
    ],
    note: "If the sender has a header with the delivery's id, enter its name under Settings, so that a repeated delivery starts no second run. Without this header, the body identifies the delivery: equal bodies start only one run.",
    example: { event: "", payload: ordered },
    template: "{{type}}: the order {{data.id}} of {{data.customer.name}} over {{data.total}} {{data.currency}}. Write the confirmation.",
    filter: [], key: "{{data.id}}",
  },
  token: {
    title: "Token", what: "Any sender that can send a fixed header, for example GitLab or a script.", theirs: false, secret: "Token",
    steps: ["Enter the webhook's URL in the sender's webhook settings.", "The sender must send the token in the token header of each delivery."],
    note: "A token authenticates the sender, but does not prove that the payload is unchanged. Prefer a signature if the sender supports it.",
    example: { event: "", payload: ordered },
    template: "{{type}}: the order {{data.id}} of {{data.customer.name}} over {{data.total}} {{data.currency}}. Write the confirmation.",
    filter: [], key: "{{data.id}}",
  },
};

export const sourceIds = Object.keys(sources) as HookSource[];

/** The default header of the signature or the token. */
export const usualHeader = (source: HookSource): string => (source === "hmac" ? "X-Signature" : source === "token" ? "X-Token" : "");

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/**
 * Returns a shell command that sends a delivery, with the secret in SECRET, or null if the source
 * has no simple command.
 */
export function commandOf(source: HookSource, url: string, header: string, idHeader: string): string | null {
  if (source !== "hmac" && source !== "token") return null;
  const named = quoted((header === "" ? usualHeader(source) : header) + ": ");
  const body = quoted(JSON.stringify(sources[source].example.payload));
  const id = idHeader === "" ? "" : ` -H ${quoted(idHeader + ": delivery-1")}`;
  const send = (proof: string) => `curl -sS ${quoted(url)} -H ${named}"${proof}"${id} \\\n  -H 'content-type: application/json' -d "$body"`;
  if (source === "token") return `body=${body}\n${send("$SECRET")}`;
  return `body=${body}\nsignature=$(printf %s "$body" | openssl dgst -sha256 -hmac "$SECRET" -r | cut -d ' ' -f 1)\n${send("$signature")}`;
}
