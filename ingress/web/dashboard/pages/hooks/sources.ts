// The services that send webhooks: what to set up there, what they send, and what to make of it.
import type { HookFilter, HookSource } from "../../types";

export interface Example {
  event: string;
  payload: unknown;
}

export interface Source {
  title: string;
  what: string;
  /** Whether they make the secret, not we. */
  theirs: boolean;
  /** What they call the secret. */
  secret: string;
  /** What to do there, once the hook is here. */
  steps: string[];
  /** What is good to know about how they send. */
  note: string;
  example: Example;
  template: string;
  filter: HookFilter[];
  /** What makes deliveries be about one thing. */
  key: string;
}

const order = { id: "ord_1042", status: "paid", total: 129.5, currency: "EUR", customer: { name: "Kim Larsen", email: "kim@example.com" }, items: [{ sku: "LAMP-7", name: "Stork lamp", quantity: 1 }] };
const ordered = { type: "order.paid", timestamp: "2026-11-22T08:00:00Z", data: order };

export const sources: Record<HookSource, Source> = {
  github: {
    title: "GitHub", what: "Issues, pull requests, pushes and all else of a repository or an organization.", theirs: false, secret: "Secret",
    steps: [
      "In the repository, or the organization, open Settings, Webhooks, Add webhook.",
      "Payload URL: the address. Content type: application/json. Secret: the secret.",
      "Choose the events. GitHub sends a ping at once: it is answered, and appears under Deliveries.",
    ],
    note: "GitHub does not send a delivery again by itself: what cannot run at once waits here instead of being refused.",
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
      "In Stripe's dashboard open Developers, Webhooks, and add an endpoint (a destination) with the address.",
      "Choose the events.",
      "Stripe shows the endpoint's signing secret, whsec_…: paste it here.",
    ],
    note: "Stripe sends a delivery again for three days until it is taken; each runs once.",
    example: {
      event: "charge.dispute.created",
      payload: { id: "evt_1", type: "charge.dispute.created", livemode: false, data: { object: { id: "dp_1", amount: 1200, currency: "eur", reason: "fraudulent", charge: "ch_1" } } },
    },
    template: "A payment of {{data.object.amount}} {{data.object.currency}} (in the smallest unit) is disputed, for the reason {{data.object.reason}}. Say in two sentences what to do next.",
    filter: [{ path: "type", op: "eq", value: "charge.dispute.created" }], key: "{{data.object.id}}",
  },
  slack: {
    title: "Slack", what: "Mentions and messages, by the Events API of an app of yours.", theirs: true, secret: "Signing secret",
    steps: [
      "In the app's settings open Basic Information: its signing secret is the secret of this hook.",
      "Open Event Subscriptions, enable events, and give the address as Request URL. Slack asks for an answer at once, and gets it.",
      "Subscribe to bot events, such as app_mention, and install the app again.",
    ],
    note: "Slack wants an answer within three seconds, and gets it before the agent begins. To answer in the thread, give the agent chat.postMessage as an endpoint of httpRequest.",
    example: {
      event: "app_mention",
      payload: { type: "event_callback", event_id: "Ev0001", team_id: "T1", event: { type: "app_mention", channel: "C1", user: "U1", ts: "1763800000.000100", text: "<@U0> What is 6 * 7?" } },
    },
    template: "In the channel {{event.channel}} the user {{event.user}} wrote to you:\n\n{{event.text}}\n\nAnswer in a few sentences.",
    filter: [{ path: "event.type", op: "eq", value: "app_mention" }], key: "{{event.channel}}",
  },
  standard: {
    title: "Standard Webhooks", what: "Any sender that signs by standardwebhooks.com, Parley itself among them.", theirs: false, secret: "Signing secret",
    steps: ["Give the sender the address.", "The secret is whsec_…: either give the sender this one, or set theirs here."],
    note: "The headers are webhook-id, webhook-timestamp and webhook-signature.",
    example: { event: "order.paid", payload: ordered },
    template: "{{type}}: the order {{data.id}} of {{data.customer.name}} over {{data.total}} {{data.currency}}. Write the confirmation.",
    filter: [{ path: "type", op: "eq", value: "order.paid" }], key: "{{data.id}}",
  },
  hmac: {
    title: "Signed (HMAC)", what: "Any sender that signs the body with HMAC-SHA256, in a header of its own.", theirs: false, secret: "Secret",
    steps: [
      "Give the sender the address and the secret.",
      "It is to send the HMAC-SHA256 of the raw body, as hex, in the header of the signature.",
    ],
    note: "Name the header with the delivery's id, if there is one: a delivery that comes again runs nothing then. Without it the body stands for the delivery: equal bodies run once.",
    example: { event: "", payload: ordered },
    template: "{{type}}: the order {{data.id}} of {{data.customer.name}} over {{data.total}} {{data.currency}}. Write the confirmation.",
    filter: [], key: "{{data.id}}",
  },
  token: {
    title: "Token", what: "Any sender that can send a fixed header, such as GitLab or a script.", theirs: false, secret: "Token",
    steps: ["Give the sender the address.", "It is to send the token in the header of the token, with each delivery."],
    note: "A token proves who sends, but not that nobody changed what is sent: prefer a signature where there is a choice.",
    example: { event: "", payload: ordered },
    template: "{{type}}: the order {{data.id}} of {{data.customer.name}} over {{data.total}} {{data.currency}}. Write the confirmation.",
    filter: [], key: "{{data.id}}",
  },
};

export const sourceIds = Object.keys(sources) as HookSource[];

/** The header that proves who sends, where the hook names none. */
export const usualHeader = (source: HookSource): string => (source === "hmac" ? "X-Signature" : source === "token" ? "X-Token" : "");

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** A command that sends a delivery as the sender would; SECRET stands for the secret. */
export function commandOf(source: HookSource, url: string, header: string, idHeader: string): string | null {
  if (source !== "hmac" && source !== "token") return null;
  const named = quoted((header === "" ? usualHeader(source) : header) + ": ");
  const body = quoted(JSON.stringify(sources[source].example.payload));
  const id = idHeader === "" ? "" : ` -H ${quoted(idHeader + ": delivery-1")}`;
  const send = (proof: string) => `curl -sS ${quoted(url)} -H ${named}"${proof}"${id} \\\n  -H 'content-type: application/json' -d "$body"`;
  if (source === "token") return `body=${body}\n${send("$SECRET")}`;
  return `body=${body}\nsignature=$(printf %s "$body" | openssl dgst -sha256 -hmac "$SECRET" -r | cut -d ' ' -f 1)\n${send("$signature")}`;
}
