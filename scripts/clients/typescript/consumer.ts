// A program that uses the client. The test only compiles it.
import {
  APIError, orThrow, Parley, RunFailedError, WaitEndedError,
  type Agent, type CompletedRun, type Document, type Hook, type NewAgent, type Page, type Run, type RunEvent, type RunStatus, type RunStream,
  type RunSummary, type SessionWithMessages,
} from "parley-sdk";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const same = <A, B>(_: Same<A, B>): void => undefined;

const client = new Parley({ apiKey: "ak_x", baseUrl: "http://127.0.0.1:8080", maxRetries: 1, timeout: 10, fetch });

export async function right(signal: AbortSignal): Promise<string> {
  const wanted: NewAgent = { name: "a", systemPrompt: "b", tools: { webSearch: { enabled: true } }, allowedCallers: ["system"] };
  const agent = await client.agents.create(wanted, { signal });
  same<typeof agent, Agent>(true);
  const run = await client.chat({ agentId: agent.id, message: "x", wait: false });
  same<typeof run, Run>(true);
  same<typeof run.message, string | null>(true);
  const status: RunStatus = run.status;
  const completed = await client.automations.run({ target: agent.id, input: { message: "x", data: { n: 1 } } }).orThrow();
  same<typeof completed, CompletedRun>(true);
  const message: string = completed.message + orThrow(run).message + status;
  const stream: RunStream = client.chat.stream({ templateId: "tpl_x", message: "x" }, { signal, timeout: 1, maxRetries: 0 });
  for await (const event of stream) {
    same<typeof event, RunEvent>(true);
    if (event.event === "message.delta") same<typeof event.data.text, string>(true);
    else if (event.event === "tool.started") event.data.toolCall.name.toUpperCase();
    else if (event.event === "run.completed") same<typeof event.data.run, Run>(true);
    else if (event.event === "run.requires_action") {
      await client.runs.act(event.data.runId, "approve", event.data.requiredAction.toolCallId ?? "");
    }
  }
  for await (const text of stream.text()) text.toUpperCase();
  for await (const listed of client.runs.list({ status: "failed", limit: 5 })) same<typeof listed, RunSummary>(true);
  const page = await client.agents.list({ q: "a" });
  same<typeof page, Page<Agent>>(true);
  for await (const listed of page) same<typeof listed, Agent>(true);
  for await (const hook of client.hooks.list()) same<typeof hook, Hook>(true);
  same<Awaited<ReturnType<typeof client.sessions.get>>, SessionWithMessages>(true);
  same<Awaited<ReturnType<typeof client.files.download>>, Blob>(true);
  const document = await client.knowledge.upload({ file: new Uint8Array(1), name: "x.md", metadata: { team: "x" } });
  same<typeof document, Document>(true);
  await client.knowledge.upload({ file: new Blob(["x"]), name: "x.md" });
  await client.knowledge.upload({ url: "https://example.com/" });
  const [best] = (await client.knowledge.search("x")).data;
  const score: number | undefined = best?.score;
  try {
    await client.runs.wait(run.id, { signal }).orThrow();
  } catch (error) {
    if (error instanceof RunFailedError) same<typeof error.run, Run>(true);
    if (error instanceof WaitEndedError) same<typeof error.runId, string | null>(true);
    if (error instanceof APIError && error.code === "rate_limited") return `${error.status} ${error.errors[0]?.field} ${score}`;
  }
  return message;
}

export async function wrong(): Promise<void> {
  // @ts-expect-error an agent or a template
  await client.chat({ message: "x" });
  // @ts-expect-error not both
  await client.chat({ agentId: "ag_x", templateId: "tpl_x", message: "x" });
  // @ts-expect-error no such field
  await client.chat({ agentId: "ag_x", message: "x", sesionId: "y" });
  // @ts-expect-error a message or an input
  await client.automations.run({ target: "ag_x" });
  // @ts-expect-error not both
  await client.automations.run({ target: "ag_x", message: "x", input: { message: "x" } });
  // @ts-expect-error an unknown caller
  await client.agents.create({ name: "a", systemPrompt: "b", allowedCallers: ["robot"] });
  // @ts-expect-error an unknown status
  await client.runs.list({ status: "done" });
  // @ts-expect-error cancel is a separate method
  await client.runs.act("run_x", "cancel", "call_x");
  // @ts-expect-error bytes need a name
  await client.knowledge.upload({ file: new Uint8Array(1) });
  // @ts-expect-error the answer may be missing
  (await client.runs.get("run_x")).message.toUpperCase();
  // @ts-expect-error the field text must not exist on all events
  for await (const event of client.runs.stream("run_x")) event.data.text;
  // @ts-expect-error an unknown option
  new Parley({ key: "ak_x" });
}
