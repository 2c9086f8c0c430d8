// Sends deliveries to Parley's hooks, signed with the libraries of Svix, Standard Webhooks, Stripe
// and GitHub. The service rejects a delivery that is signed with another secret, and the hook's log
// contains the reason.
import assert from "node:assert/strict";
import { sign } from "@octokit/webhooks-methods";
import { Webhook as StandardWebhook } from "standardwebhooks";
import Stripe from "stripe";
import { Webhook as SvixWebhook } from "svix";
import { clientOf } from "./features.mjs";

const { PARLEY_BASE_URL, PARLEY_API_KEY, ECHO_ID } = process.env;

async function api(method, path, body) {
  const answer = await fetch(PARLEY_BASE_URL + path, {
    method, headers: { "x-api-key": PARLEY_API_KEY, "content-type": "application/json" }, ...(body && { body: JSON.stringify(body) }),
  });
  assert.ok(answer.ok, `${path}: ${answer.status} ${await answer.clone().text()}`);
  return answer.json();
}

const payload = JSON.stringify({ id: `evt_${Date.now()}`, type: "user.created", user: "Ada" });
const ids = { svix: "msg_svix", standardwebhooks: "msg_standard" };
const seconds = () => String(Math.floor(Date.now() / 1000));
const whsec = (letter) => "whsec_" + Buffer.from(letter.repeat(32)).toString("base64");
const stripe = new Stripe("sk_test_unused");

// Each sender signs a payload and returns the headers to send with it.
const senders = {
  svix: {
    source: "standard", secrets: [whsec("a"), whsec("b")],
    headers: (secret) => ({
      "svix-id": ids.svix, "svix-timestamp": seconds(), "svix-signature": new SvixWebhook(secret).sign(ids.svix, new Date(), payload),
    }),
  },
  standardwebhooks: {
    source: "standard", secrets: [whsec("c"), whsec("d")],
    headers: (secret) => ({
      "webhook-id": ids.standardwebhooks, "webhook-timestamp": seconds(), "webhook-signature": new StandardWebhook(secret).sign(ids.standardwebhooks, new Date(), payload),
    }),
  },
  stripe: {
    source: "stripe", secrets: ["whsec_stripe_right_0123456789", "whsec_stripe_wrong_0123456789"],
    headers: (secret) => ({ "stripe-signature": stripe.webhooks.generateTestHeaderString({ payload, secret }) }),
  },
  "@octokit/webhooks-methods": {
    source: "github", secrets: ["a-long-secret-of-github", "another-secret-of-github"],
    headers: async (secret) => ({
      "x-github-event": "user", "x-github-delivery": "delivery-1", "x-hub-signature-256": await sign(secret, payload),
    }),
  },
};

const report = {};
for (const [name, { source, secrets: [right, wrong], headers }] of Object.entries(senders)) {
  const hook = await api("POST", "/api/hooks", { name: `${name} ${Date.now()}`, agentId: ECHO_ID, source, secret: right, messageTemplate: "New: {{user}}" });
  const deliver = async (secret) => fetch(hook.url, { method: "POST", body: payload, headers: { "content-type": "application/json", ...(await headers(secret)) } });

  const refused = await deliver(wrong);
  assert.equal(refused.status, 401, name);
  const accepted = await deliver(right);
  assert.equal(accepted.status, 202, `${name}: ${await accepted.clone().text()}`);
  const { runId, deliveryId } = await accepted.json();
  if (ids[name]) assert.equal(deliveryId, ids[name]);
  assert.equal((await (await deliver(right)).json()).runId, runId, `${name}: a repeated delivery has another run`);

  const { data } = await api("GET", `/api/hooks/deliveries?hookId=${hook.id}`);
  assert.deepEqual(data.map((d) => d.status), ["accepted", "rejected"], name);
  assert.match(data[1].error.message, /signature does not match/);
  clientOf(`\`${name}\``).works("deliveries", "repeats", "signatures");
  report[name] = runId;
}
console.log(JSON.stringify(report));
