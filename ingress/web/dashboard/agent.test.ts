import { equal, type Test } from "../kit/check";
import { changeBody, newDraft, findFaults, newEndpoint, newServer, type Draft } from "./pages/agent/draft";
import { policy } from "./pages/agent/examples";
import { parseOrigin, parseOrigins } from "./pages/agent/origin";
import { fieldLabel, faultText } from "./pages/agent/words";
import { supportFor } from "./pages/agent/modelsupport";
import type { Agent } from "./types";

const agent: Agent = {
  id: "ag_1", name: "A", description: "", systemPrompt: "p", model: "", fallbackModels: ["a", "b"], allowedCallers: ["user"], tools: {},
  widget: { enabled: false, allowedOrigins: ["https://a.example"], attachments: false }, outputSchema: null, appendSources: false, suggestions: ["Who are you?"], version: 1,
  temperature: null, topP: 0.5, maxOutputTokens: null, reasoningEffort: null, seed: null, stop: ["END", "a\n\\n"], parallelToolCalls: false, overridable: ["seed"], lastCheck: null, createdAt: "2026-11-21T09:00:00.000Z", updatedAt: "2026-11-21T09:00:00.000Z",
};

const draft: Draft = {
  ...newDraft(agent),
  "tools.httpRequest.endpoints": [newEndpoint(), { ...newEndpoint(), name: "getOrder", inputSchema: "{" }],
  "tools.mcp.servers": [{ ...newServer(), name: "docs" }],
};

export const tests: Test[] = [
  {
    name: "model settings are typed as texts and saved as the API's values",
    run: () => {
      equal(newDraft(agent).stop, "END\na\\n\\\\n", "stop texts");
      equal(changeBody(agent, newDraft(agent)), { version: 1 }, "no change");
      const typed: Draft = { ...newDraft(agent), temperature: " 0.2", topP: "", seed: "7", stop: "x\\ny\n\n", reasoningEffort: "low", parallelToolCalls: "", overridable: [] };
      equal(changeBody(agent, typed), { version: 1, temperature: 0.2, topP: null, reasoningEffort: "low", seed: 7, stop: ["x\ny"], parallelToolCalls: null, overridable: [] }, "changes");
      equal(findFaults({ ...newDraft(agent), temperature: "warm", topP: "1" }).map((f) => f.field), ["temperature"], "faults");
    },
  },
  {
    name: "suggested questions are typed one per line",
    run: () => {
      equal(newDraft(agent).suggestions, "Who are you?", "draft");
      equal(changeBody(agent, { ...newDraft(agent), suggestions: "Who are you?\n\n  What can you do? \n" }), { version: 1, suggestions: ["Who are you?", "What can you do?"] }, "changes");
      equal(changeBody(agent, { ...newDraft(agent), suggestions: "\n" }), { version: 1, suggestions: [] }, "none");
    },
  },
  {
    name: "the form says what a model accepts",
    run: () => {
      equal(supportFor("openai/gpt-5-mini").temperature, { min: 1, max: 1 }, "a model of the table");
      equal(supportFor("anthropic/claude-sonnet-5-5").seed, false, "the first matching prefix");
      equal(supportFor("offline").stop, true, "another model");
    },
  },
  {
    name: "typed origins are converted to the form that browsers send",
    run: () => {
      const good = {
        "https://www.example.com": "https://www.example.com", "https://www.example.com/": "https://www.example.com", "HTTPS://Www.Example.com:443": "https://www.example.com",
        "http://localhost:3000": "http://localhost:3000", "www.example.com": "https://www.example.com", "example.com:8443": "https://example.com:8443", localhost: "https://localhost",
        "intranet:8080": "https://intranet:8080", "http://intranet": "http://intranet", "http://127.0.0.1:5000": "http://127.0.0.1:5000", "http://[::1]:3000": "http://[::1]:3000",
        "https://bücher.example": "https://xn--bcher-kva.example", "https://example.com:65535": "https://example.com:65535",
      };
      for (const [typed, sent] of Object.entries(good)) equal(parseOrigin(typed), sent, typed);
    },
  },
  {
    name: "invalid origins are rejected",
    run: () => {
      const bad = [
        "not", "", "an origin", "*", "*.example.com", "https://*.example.com", "https://a.example/path", "a.example/x", "https://a.example?x", "https://a.example#x", "https://u:p@a.example",
        "ftp://a.example", "javascript:alert(1)", "https://", "https://a.example:0", "https://a.example:65536", "https://a.example:99999", "https://a..example", "https://-a.example", "1.5",
        "https://a_.example", "https://a.example.", "https://a.example\\b", "null", "https://a%20b.example", "//a.example",
      ];
      for (const typed of bad) equal(parseOrigin(typed), null, typed);
    },
  },
  {
    name: "an invalid origin prevents the others from being added",
    run: () => {
      equal(parseOrigins("a.example, https://b.example").origins, ["https://a.example", "https://b.example"]);
      const { origins, fault } = parseOrigins("not an origin a.example");
      equal([origins, fault], [[], "Not an origin: not, an, origin. Enter a scheme and a host without a path, for example https://www.example.com."]);
      equal(parseOrigins("*.a.example").fault, "Not an origin: *.a.example. Patterns are not supported. Add each origin separately, for example https://www.example.com.");
    },
  },
  {
    name: "the security policy is a single header line",
    run: () => equal(policy("https://p.example"), "Content-Security-Policy: script-src https://p.example; connect-src https://p.example"),
  },
  {
    name: "fields are named by the form's labels",
    run: () => {
      const labels: Record<string, string> = {
        name: "Name", systemPrompt: "System prompt", "fallbackModels[1]": "Fallback model 2", "allowedCallers[0]": "Who may call it", "tools.httpRequest.endpoints[0].name": "Endpoint 1: Name",
        "tools.httpRequest.endpoints[1].url": "Endpoint “getOrder”: URL", "tools.httpRequest.endpoints[1].headers.X-Key": "Endpoint “getOrder”: Header X-Key",
        "tools.httpRequest.endpoints[1].inputSchema.properties.id": "Endpoint “getOrder”: Arguments", "tools.httpRequest.endpoints[0]": "Endpoint 1", "tools.httpRequest.endpoints": "HTTP endpoints: Endpoints",
        "tools.mcp.servers[0].url": "Server “docs”: Server URL", "tools.webSearch.approval": "Web search: Ask a person first", "tools.knowledge.documentIds[2]": "Knowledge: Documents",
        "tools.knowledge.metadata.team": "Knowledge: Metadata team", "tools.voice.voice": "Voice", "widget.allowedOrigins[0]": "Allowed origin https://a.example", "widget.identitySecret": "Identity secret",
        version: "version",
      };
      for (const [field, words] of Object.entries(labels)) equal(fieldLabel(field, draft), words, field);
    },
  },
  {
    name: "field errors are sentences with the field's label",
    run: () => {
      equal(faultText({ field: "name", message: "must not be empty" }, draft), "Name must not be empty");
      equal(faultText({ field: "widget.identitySecret", message: "there is no secret to keep" }, draft), "Identity secret: there is no secret to keep");
      const [fault] = findFaults(draft);
      equal(fault && faultText(fault, draft).startsWith("Endpoint “getOrder”: Arguments must be valid JSON: "), true);
    },
  },
];
