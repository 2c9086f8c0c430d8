import { equal, thrown, type Test } from "../kit/check";
import { newSourceDraft, createBody, changeBody, newDraft, parseFilters, nextRow } from "./pages/hooks/draft";
import { formatCommand, sourceIds, sources } from "./pages/hooks/sources";
import { renderMessage, passes, findPaths, renderPieces, valueAt } from "./pages/hooks/template";
import { makeHook } from "./pages/newhook";
import type { Hook, HookFilter } from "./types";

const payload = { action: "opened", issue: { number: 17, title: "A ⟦lamp⟧", labels: [{ name: "bug" }], body: null }, "a.b": 1, "with space": 2, draft: false };
const sample = { event: "issues", deliveryId: "d-1", payload };

const hook: Hook = {
  id: "hook_1", name: "Issues", agentId: "ag_1", keyId: "key_1", source: "hmac", url: "https://a.example/api/hooks/receive/hook_1", secret: "***", previousSecretUntil: null,
  signatureHeader: "X-Signature", deliveryIdHeader: "", messageTemplate: "{{action}}", outputSchema: null, coalesce: { key: "{{issue.number}}", windowSeconds: 5, maxWaitSeconds: 30 }, enabled: true,
  filter: [
    { path: "@event", op: "in", value: ["issues", "12", "a,b", 3] }, { path: "n", op: "eq", value: "12" }, { path: "n", op: "ne", value: 12 },
    { path: "t", op: "contains", value: "lamp" }, { path: "u", op: "exists", value: false }, { path: "w", op: "in", value: ["x", "12"] },
  ],
  lastDeliveryAt: null, lastRejectedAt: null, createdAt: "2026-11-22T09:00:00.000Z", updatedAt: "2026-11-22T09:00:00.000Z",
};

export const tests: Test[] = [
  {
    name: "a path returns the payload's value, or nothing",
    run: () => {
      equal(valueAt(payload, "issue.labels.0.name"), "bug");
      for (const path of ["issue.labels.1.name", "issue.labels.00", "issue.labels.length", "toString", "__proto__", "issue.title.0", "", "a.b"]) equal(valueAt(payload, path), undefined, path);
    },
  },
  {
    name: "a template is rendered as by the service",
    run: () => {
      equal(renderMessage("{{ action }} #{{issue.number}} {{issue.title}}{{issue.body}}{{none}}: {{issue.labels}} {{draft}}", sample), '⟦opened⟧ #⟦17⟧ ⟦A lamp⟧: ⟦[{"name":"bug"}]⟧ ⟦false⟧');
      equal(renderMessage("{{@event}} {{@deliveryId}}", sample), "⟦issues⟧ ⟦d-1⟧");
      equal(renderMessage("{{x}}", { ...sample, payload: { x: "é".repeat(5000) } }), `⟦${"é".repeat(5000)}⟧`);
      equal(renderMessage("{{@payload}}", { ...sample, payload: "é".repeat(5000) }), `⟦"${"é".repeat(3998)}…⟧`);
      equal(renderMessage("left {{open", sample), "left {{open");
      equal(renderMessage("{{x}}", { ...sample, payload: { x: "{{action}}" } }), "⟦{{action}}⟧");
      equal(renderPieces("a{{none}}b", sample), [{ text: "a" }, { path: "none", text: "" }, { text: "b" }]);
    },
  },
  {
    name: "the fields of a sample are those that a template can contain",
    run: () => {
      equal(findPaths(payload), ["action", "issue.number", "issue.title", "issue.labels.0.name", "draft"]);
      equal(findPaths(Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`k${i}`, i]))).length, 60);
      equal(findPaths("text"), []);
    },
  },
  {
    name: "filters are evaluated as by the service",
    run: () => {
      const cases: [HookFilter, boolean][] = [
        [{ path: "@event", op: "eq", value: "issues" }, true], [{ path: "issue.number", op: "eq", value: 17 }, true], [{ path: "issue.number", op: "eq", value: "17" }, false],
        [{ path: "none", op: "ne", value: 1 }, true], [{ path: "action", op: "in", value: ["closed", "opened"] }, true], [{ path: "action", op: "contains", value: "pen" }, true],
        [{ path: "none", op: "exists" }, false], [{ path: "none", op: "exists", value: false }, true], [{ path: "draft", op: "exists" }, true], [{ path: "issue.body", op: "exists" }, false], [{ path: "issue.body", op: "eq", value: null }, true], [{ path: "issue", op: "exists" }, true],
      ];
      for (const [filter, holds] of cases) equal(passes([filter], sample), holds, JSON.stringify(filter));
    },
  },
  {
    name: "opening and saving a webhook does not change it",
    run: () => {
      const draft = newDraft(hook);
      equal(parseFilters(draft.filter), hook.filter);
      const { name, agentId, keyId, messageTemplate, outputSchema, filter, coalesce, signatureHeader, deliveryIdHeader } = hook;
      equal(changeBody(draft), { name, agentId, keyId, messageTemplate, outputSchema, filter, coalesce, signatureHeader, deliveryIdHeader });
      equal(parseFilters([nextRow("a", "in", "x, 1, true"), nextRow("b", "eq", "12"), nextRow("c", "eq", '"12"')]).map((f) => f.value), [["x", 1, true], 12, "12"]);
    },
  },
  {
    name: "an empty schema is removed, and one that is not JSON is sent as typed",
    run: () => {
      const schema = { type: "object", required: ["n"] };
      const draft = newDraft({ ...hook, outputSchema: schema });
      equal(changeBody(draft).outputSchema, schema);
      equal(changeBody({ ...draft, outputSchema: " \n" }).outputSchema, null);
      equal("outputSchema" in createBody({ ...draft, outputSchema: "" }), false);
      equal(createBody({ ...draft, outputSchema: "{" }).outputSchema, "{");
    },
  },
  {
    name: "the example of every source matches its template and filter",
    run: () => {
      for (const source of sourceIds) {
        const { example, template, filter, key } = sources[source];
        const one = { ...example, deliveryId: "d" };
        equal(passes(filter, one), true, source);
        equal([...renderPieces(template, one), ...renderPieces(key, one)].filter((p) => p.text === ""), [], source);
        const body = createBody({ ...newSourceDraft(source, "ag_1"), name: "N", secret: "s3cret" }, "key_9");
        equal([body.source, body.keyId, "coalesce" in body, "signatureHeader" in body], [source, "key_9", false, source === "hmac" || source === "token"]);
      }
    },
  },
  {
    name: "a command contains the secret if it is known, quoted for the shell",
    run: () => {
      equal(formatCommand("token", hook).includes(`-H 'X-Signature: '"$SECRET"`), true);
      equal(formatCommand("token", hook, "it's").includes(`-H 'X-Signature: ''it'\\''s'`), true);
      equal(formatCommand("hmac", hook, "s3cret").includes("-hmac 's3cret' -r"), true);
    },
  },
  {
    name: "a new key is deleted with a refused webhook, and kept if the outcome is unknown",
    run: async () => {
      const real = globalThis.fetch;
      const asked: string[] = [];
      const answers: (() => Promise<Response>)[] = [
        () => Promise.resolve(Response.json({ code: "invalid_request", detail: "No" }, { status: 400 })), () => Promise.reject(new TypeError("cut")),
        () => Promise.resolve(new Response("<p>Gateway timeout</p>", { status: 504 })),
      ];
      try {
        for (const ofHook of answers) {
          globalThis.fetch = (input, init) => {
            asked.push(`${init?.method} ${String(input)}`);
            return String(input) === "/api/hooks" ? ofHook() : Promise.resolve(Response.json({ id: "key_1" }));
          };
          await thrown(() => makeHook({ ...newSourceDraft("github", "ag_1"), name: "N" }));
        }
      } finally {
        globalThis.fetch = real;
      }
      equal(asked, ["POST /api/keys", "POST /api/hooks", "DELETE /api/keys?id=key_1", "POST /api/keys", "POST /api/hooks", "POST /api/keys", "POST /api/hooks"]);
    },
  },
];
