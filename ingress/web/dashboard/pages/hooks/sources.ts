// The services that send webhooks, with their setup, example payloads, and default messages.
import * as texts from "../../texts/hooks";
import { Words } from "../../texts/hooks";
import type { Hook, HookFilter, HookSource } from "../../types";

export interface Example {
  event: string;
  payload: unknown;
}

export interface Source {
  title: string;
  what: string;
  /** Whether the sending service generates the secret. If not, Parley generates it. */
  theirs: boolean;
  /** The name that the sending service uses for the secret. */
  secret: string;
  /** The name that the sending service uses for the webhook's URL. */
  url: string;
  /** The content type that must be chosen at the sending service, if it offers several. */
  contentType?: string;
  /**
   * Returns the steps that remain to be done at the sending service after the webhook was created
   * in Parley. The argument header is the header of the signature or the token, or empty if the
   * sender determines that header.
   */
  steps: (header: string) => string[];
  /** A note about how the service delivers. */
  note: string;
  example: Example;
  template: string;
  filter: HookFilter[];
  /** The default template of the coalescing key. */
  key: string;
}

const order = { id: "ord_1042", status: "paid", total: 129.5, currency: "EUR", customer: { name: Words.kimLarsen, email: "kim@example.com" }, items: [{ sku: "LAMP-7", name: Words.storkLamp, quantity: 1 }] };
const ordered = { type: "order.paid", timestamp: "2026-11-22T08:00:00Z", data: order };

export const sources: Record<HookSource, Source> = {
  github: {
    title: Words.github, what: Words.issuesPullRequestsPushes, theirs: false, secret: Words.secret, url: Words.payloadUrl, contentType: "application/json",
    steps: () => [
      Words.inRepositoryOrOrganization,
      Words.enterPayloadUrl,
      Words.chooseEventsGithubImmediately,
    ],
    note: Words.githubDoesNotResend,
    example: {
      event: "issues",
      payload: {
        action: "opened",
        issue: { number: 17, title: Words.lampDoesNotShine, body: Words.itArrivedOnMonday, html_url: "https://github.com/acme/shop/issues/17", user: { login: "kim" }, labels: [{ name: "bug" }] },
        repository: { full_name: "acme/shop" }, sender: { login: "kim" },
      },
    },
    template: Words.inRepositoryFullName,
    filter: [{ path: "@event", op: "eq", value: "issues" }], key: "{{repository.full_name}}#{{issue.number}}",
  },
  stripe: {
    title: Words.stripe, what: Words.paymentsDisputesInvoices, theirs: true, secret: Words.signingSecret, url: Words.endpointUrl,
    steps: () => [
      Words.inStripesDashboardOpen,
      Words.chooseEvents,
      Words.stripeShowsEndpointsSigning,
    ],
    note: Words.stripeResendsDelivery,
    example: {
      event: "charge.dispute.created",
      payload: { id: "evt_1", type: "charge.dispute.created", livemode: false, data: { object: { id: "dp_1", amount: 1200, currency: "eur", reason: "fraudulent", charge: "ch_1" } } },
    },
    template: Words.paymentOfDataObject,
    filter: [{ path: "type", op: "eq", value: "charge.dispute.created" }], key: "{{data.object.id}}",
  },
  slack: {
    title: Words.slack, what: Words.mentionsAndMessagesThrough, theirs: true, secret: Words.signingSecret, url: Words.requestUrl,
    steps: () => [
      Words.inAppsSettingsOpen,
      Words.openEventSubscriptionsEnable,
      Words.subscribeToBotEvents,
    ],
    note: Words.slackExpectsResponseWithin,
    example: {
      event: "app_mention",
      payload: { type: "event_callback", event_id: "Ev0001", team_id: "T1", event: { type: "app_mention", channel: "C1", user: "U1", ts: "1763800000.000100", text: Words.slackQuestion } },
    },
    template: Words.inChannelEventChannel,
    filter: [{ path: "event.type", op: "eq", value: "app_mention" }], key: "{{event.channel}}",
  },
  standard: {
    title: Words.standardWebhooks, what: Words.anySenderThatSigns, theirs: false, secret: Words.signingSecret, url: Words.address,
    steps: () => [
      Words.enterWebhooksUrl,
      Words.secretIsWhsecEnter,
    ],
    note: Words.headersAreWebhookId,
    example: { event: "order.paid", payload: ordered },
    template: Words.typeOrderDataId,
    filter: [{ path: "type", op: "eq", value: "order.paid" }], key: "{{data.id}}",
  },
  hmac: {
    title: Words.signedHmac, what: Words.anySenderThatSignsBody, theirs: false, secret: Words.secret, url: Words.address,
    steps: (header) => [
      Words.enterWebhooksUrlAndSecret,
      texts.senderMustSendHmac(header),
    ],
    note: Words.ifSenderHasHeader,
    example: { event: "", payload: ordered },
    template: Words.typeOrderDataId,
    filter: [], key: "{{data.id}}",
  },
  token: {
    title: Words.token, what: Words.anySenderThatCanSend, theirs: false, secret: Words.token, url: Words.address,
    steps: (header) => [Words.enterWebhooksUrl, texts.senderMustSendToken(header)],
    note: Words.tokenAuthenticatesSender,
    example: { event: "", payload: ordered },
    template: Words.typeOrderDataId,
    filter: [], key: "{{data.id}}",
  },
};

export const sourceIds = Object.keys(sources) as HookSource[];

/** The default header of the signature or the token. */
export const usualHeader = (source: HookSource): string => (source === "hmac" ? "X-Signature" : source === "token" ? "X-Token" : "");

const quoteShell = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

type Address = Pick<Hook, "url" | "signatureHeader" | "deliveryIdHeader">;

/**
 * Returns a shell command that sends a delivery, signed as the source signs it. Without a secret, the
 * command reads the secret from the variable SECRET.
 */
export function formatCommand(source: HookSource, { url, signatureHeader, deliveryIdHeader }: Address, secret?: string): string {
  const { payload, event } = sources[source].example;
  const body = quoteShell(JSON.stringify(payload));
  const key = secret === undefined ? '"$SECRET"' : quoteShell(secret);
  const proof = quoteShell((signatureHeader === "" ? usualHeader(source) : signatureHeader) + ": ");
  const send = `curl -sS ${quoteShell(url)} \\\n `;
  const rest = ` -H 'content-type: application/json'${deliveryIdHeader === "" ? "" : ` -H ${quoteShell([deliveryIdHeader, "delivery-1"].join(": "))}`} -d "$body"`;
  switch (source) {
    case "github":
      return `body=${body}
signature=$(printf %s "$body" | openssl dgst -sha256 -hmac ${key} -r | cut -d ' ' -f 1)
${send} -H "X-Hub-Signature-256: sha256=$signature" -H 'X-GitHub-Event: ${event}' -H "X-GitHub-Delivery: test-$(date +%s)"${rest}`;
    case "stripe":
      return `body=${body}
time=$(date +%s)
signature=$(printf '%s.%s' "$time" "$body" | openssl dgst -sha256 -hmac ${key} -r | cut -d ' ' -f 1)
${send} -H "Stripe-Signature: t=$time,v1=$signature"${rest}`;
    case "slack":
      return `body=${body}
time=$(date +%s)
signature=$(printf 'v0:%s:%s' "$time" "$body" | openssl dgst -sha256 -hmac ${key} -r | cut -d ' ' -f 1)
${send} -H "X-Slack-Request-Timestamp: $time" -H "X-Slack-Signature: v0=$signature"${rest}`;
    case "standard": // the key is encoded in base64
      return `body=${body}
time=$(date +%s)
key=$(printf %s ${key} | sed 's/^whsec_//' | base64 -d | od -An -v -tx1 | tr -d ' \\n')
signature=$(printf 'test-%s.%s.%s' "$time" "$time" "$body" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | base64)
${send} -H "webhook-id: test-$time" -H "webhook-timestamp: $time" -H "webhook-signature: v1,$signature"${rest}`;
    case "hmac":
      return `body=${body}
signature=$(printf %s "$body" | openssl dgst -sha256 -hmac ${key} -r | cut -d ' ' -f 1)
${send} -H ${proof}"$signature"${rest}`;
    case "token":
      return `body=${body}
${send} -H ${proof}${key}${rest}`;
  }
}
