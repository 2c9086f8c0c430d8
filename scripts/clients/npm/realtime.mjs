// Tests OpenAI's Realtime clients against Parley with speech in both directions. If a result is
// wrong, a part of the script throws an error, and the script's exit status is not 0. The script
// prints the values that only the Go test can check.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import OpenAI from "openai";
import { OpenAIRealtimeWebSocket } from "openai/realtime/websocket";
import { OpenAIRealtimeWS } from "openai/realtime/ws";
import WebSocket from "ws";

globalThis.WebSocket ??= WebSocket; // Node 20 has no WebSocket

const { PARLEY_BASE_URL, PARLEY_API_KEY, TLS_URL, ECHO_ID, SAYS_ID, MUTE_ID } = process.env;
const SPEECH = JSON.parse(process.env.SPEECH); // the spoken text and the path of its audio samples, by name

const RATE = 24_000;
const second = 2 * RATE; // bytes per second of audio
const seen = []; // the events of all sessions
const report = {};

const at = (base, apiKey = PARLEY_API_KEY) => new OpenAI({ apiKey, baseURL: `${base}/v1`, dangerouslyAllowBrowser: true });
const client = at(PARLEY_BASE_URL);
const secure = (apiKey) => at(TLS_URL, apiKey); // the clients accept only wss URLs
const kinds = { OpenAIRealtimeWS, OpenAIRealtimeWebSocket };

async function api(path) {
  const answer = await fetch(PARLEY_BASE_URL + path, { headers: { "x-api-key": PARLEY_API_KEY } });
  assert.ok(answer.ok, `${path}: ${answer.status}`);
  return answer.json();
}

const wait = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

// Talk is a Realtime client that keeps the events it has received in a queue.
class Talk {
  constructor(realtime) {
    this.realtime = realtime;
    this.queue = [];
    this.errors = [];
    realtime.on("event", (event) => {
      seen.push(event);
      this.queue.push({ ...event, at: Date.now() });
      this.wake?.();
    });
    realtime.on("error", (error) => {
      this.errors.push(error);
      this.wake?.();
    });
  }

  // until waits for an event of one of the given types, and returns all events up to and including
  // it.
  async until(...types) {
    const events = [];
    const over = Date.now() + 180_000; // a loaded machine may transcribe slowly
    for (;;) {
      while (this.queue.length > 0) {
        const event = this.queue.shift();
        events.push(event);
        if (types.includes(event.type)) return events;
        if (event.type === "error" && !types.includes("error")) assert.fail(`${event.error.message} (waiting for ${types})`);
      }
      assert.ok(Date.now() < over, `no ${types} after ${events.map((e) => e.type)}`);
      await Promise.race([new Promise((resolve) => { this.wake = resolve; }), wait(1000)]);
    }
  }

  async event(...types) { return (await this.until(...types)).at(-1); }

  send(event) { this.realtime.send(event); }

  async update(session) {
    this.send({ type: "session.update", session: { type: "realtime", ...session } });
    return (await this.event("session.updated")).session;
  }

  append(samples) { this.send({ type: "input_audio_buffer.append", audio: samples.toString("base64") }); }

  // speak appends audio in real time.
  async speak(samples) {
    const piece = second / 20;
    const began = Date.now();
    for (let from = 0; from < samples.length; from += piece) {
      this.append(samples.subarray(from, from + piece));
      await wait(began + ((from + piece) / second) * 1000 - Date.now());
    }
  }

  say(text) {
    this.send({ type: "conversation.item.create", item: { type: "message", role: "user", content: [{ type: "input_text", text }] } });
    this.send({ type: "response.create" });
  }

  // turn reads the events of a spoken user turn up to the turn's transcript, and checks their
  // order.
  async turn() {
    const events = await this.until("conversation.item.input_audio_transcription.completed");
    const order = events.filter((e) => !/^response\./.test(e.type)).map((e) => e.type);
    const want = [
      "input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped", "input_audio_buffer.committed",
      "conversation.item.added", "conversation.item.done", "conversation.item.input_audio_transcription.completed",
    ];
    assert.deepEqual(order, want);
    const ids = new Set(events.map((e) => e.item_id ?? e.item?.id));
    assert.equal(ids.size, 1, "one item");
    const [started, stopped] = events;
    assert.ok(started.audio_start_ms < stopped.audio_end_ms);
    return events.at(-1).transcript;
  }

  // answer reads the events of a response to its end.
  async answer() {
    const [created] = (await this.until("response.created")).slice(-1);
    const events = [created, ...await this.until("response.done")];
    const sound = events.filter((e) => e.type === "response.output_audio.delta").map((e) => Buffer.from(e.delta, "base64"));
    const told = (type) => events.filter((e) => e.type === type).map((e) => e.delta).join("");
    return {
      events, sound: Buffer.concat(sound), response: events.at(-1).response,
      transcript: told("response.output_audio_transcript.delta"), text: told("response.output_text.delta"),
    };
  }

  // played waits as long as a client needs to play an answer. Speech before the end of the playback
  // would interrupt the answer.
  async played({ events, sound }) {
    const first = events.find((e) => e.type === "response.output_audio.delta");
    await wait(first.at + (sound.length / second) * 1000 + 500 - Date.now());
  }

  close() {
    this.realtime.close();
    assert.deepEqual(this.errors, [], "the client reported errors");
  }
}

async function connect(kind, { model = ECHO_ID, apiKey } = {}) {
  const talk = new Talk(await kinds[kind].create(secure(apiKey), { model }));
  talk.session = (await talk.event("session.created")).session;
  return talk;
}

const words = (text) => text.toLowerCase().match(/[\p{L}\p{N}']+/gu) ?? [];

// hasWords checks that a transcript contains all words of a text in the text's order.
function hasWords(understood, text) {
  const rest = words(understood);
  for (const word of words(text)) {
    const found = rest.indexOf(word);
    assert.ok(found >= 0, `${JSON.stringify(understood)} lacks ${JSON.stringify(word)} of ${JSON.stringify(text)}`);
    rest.splice(0, found + 1);
  }
}

// understood transcribes audio by sending it to Parley as a separate turn.
async function understood(sound) {
  const talk = await connect("OpenAIRealtimeWS");
  await talk.update({ audio: { input: { turn_detection: null } } });
  for (let from = 0; from < sound.length; from += second) talk.append(sound.subarray(from, from + second));
  talk.send({ type: "input_audio_buffer.commit" });
  const { transcript } = await talk.event("conversation.item.input_audio_transcription.completed");
  talk.close();
  return transcript;
}

const silence = (seconds) => Buffer.alloc(Math.round(seconds * RATE) * 2);
const spoken = {};
for (const [name, { file }] of Object.entries(SPEECH)) spoken[name] = Buffer.concat([silence(0.5), await readFile(file), silence(1)]);

// checkAnswer checks the order of a spoken answer's events, and the final response's transcript and
// token counts.
function checkAnswer({ events, response, sound, transcript }) {
  const types = events.map((e) => e.type);
  const first = ["response.created", "response.output_item.added", "conversation.item.added", "response.content_part.added"];
  const last = [
    "response.output_audio.done", "response.output_audio_transcript.done", "response.content_part.done", "response.output_item.done",
    "conversation.item.done", "response.done",
  ];
  assert.deepEqual(types.slice(0, 4), first);
  assert.deepEqual(types.slice(-6), last);
  const middle = new Set(types.slice(4, -6));
  assert.deepEqual([...middle].sort(), ["response.output_audio.delta", "response.output_audio_transcript.delta"]);
  assert.equal(response.status, "completed");
  assert.equal(response.object, "realtime.response");
  assert.equal(response.output.length, 1);
  assert.equal(response.output[0].content[0].transcript, transcript);
  assert.ok(sound.length > second / 2 && sound.length % 2 === 0, `${sound.length} bytes of sound`);
  assert.ok(response.usage.total_tokens === response.usage.input_tokens + response.usage.output_tokens);
  for (const event of events) assert.equal(event.response_id ?? response.id, response.id);
}

const parts = {
  // Holds a session with three spoken turns and one typed turn. One spoken turn is sent faster than
  // real time, and another ends with an explicit commit.
  async conversation(kind) {
    const talk = await connect(kind);
    assert.equal(talk.session.object, "realtime.session");
    assert.equal(talk.session.type, "realtime");
    assert.equal(talk.session.model, ECHO_ID);
    assert.equal(talk.session.audio.input.turn_detection.type, "server_vad");
    assert.deepEqual(talk.session.audio.output.format, { type: "audio/pcm", rate: RATE });

    const speaking = talk.speak(spoken.first);
    const first = await talk.turn();
    hasWords(first, SPEECH.first.text);
    const answer = await talk.answer();
    await speaking;
    checkAnswer(answer);
    assert.equal(answer.transcript, `echo: ${first}`);
    const heard = await understood(answer.sound);
    hasWords(heard, SPEECH.first.text);
    await talk.played(answer);

    for (let from = 0; from < spoken.second.length; from += second) talk.append(spoken.second.subarray(from, from + second));
    const next = await talk.turn();
    hasWords(next, SPEECH.second.text);
    checkAnswer(await talk.answer());

    const updated = await talk.update({ audio: { input: { turn_detection: null } } });
    assert.equal(updated.audio.input.turn_detection, null);
    talk.append(spoken.first);
    talk.send({ type: "input_audio_buffer.commit" });
    const { transcript } = await talk.event("conversation.item.input_audio_transcription.completed");
    hasWords(transcript, SPEECH.first.text);
    assert.deepEqual(talk.queue.map((e) => e.type), [], "an answer started before it was requested");
    talk.send({ type: "response.create" });
    const manual = await talk.answer();
    checkAnswer(manual);
    assert.equal(manual.transcript, `echo: ${transcript}`);

    assert.deepEqual((await talk.update({ output_modalities: ["text"] })).output_modalities, ["text"]);
    talk.say("Only in writing, please.");
    const written = await talk.answer();
    assert.deepEqual([written.text, written.sound.length], ["echo: Only in writing, please.", 0]);
    assert.equal(written.response.output[0].content[0].text, written.text);
    talk.close();

    const { messages } = await api(`/api/sessions?id=${talk.session.id}&agentId=${ECHO_ID}`);
    assert.deepEqual(messages.map((m) => m.content), [
      first, `echo: ${first}`, next, `echo: ${next}`, transcript, `echo: ${transcript}`, "Only in writing, please.", written.text,
    ]);
    assert.ok(messages.every((m) => !m.interrupted));
    (report.understood ??= []).push(first, next, transcript, heard);
  },

  // Requests an answer of which the speech recognizer knows all words, and checks the transcript
  // and the audio of the answer.
  async answersWords(kind) {
    const talk = await connect(kind, { model: SAYS_ID });
    talk.say(`say: ${SPEECH.answer.text}`);
    const answer = await talk.answer();
    checkAnswer(answer);
    assert.equal(answer.transcript, SPEECH.answer.text);
    hasWords(await understood(answer.sound), SPEECH.answer.text);
    talk.close();
  },

  // Speech during an answer interrupts the answer immediately. The client reports how much of the
  // answer was played.
  async bargeIn(kind) {
    const talk = await connect(kind);
    const long = "This is the first sentence of a long answer. " + "And it goes on and on, sentence by sentence, until somebody says stop. ".repeat(8);
    talk.say(long);
    const begun = await talk.until("response.output_audio.delta");
    const item = begun.at(-1).item_id;
    await wait(2000);
    const speaking = talk.speak(spoken.first);
    await talk.event("input_audio_buffer.speech_started");
    const { response } = await talk.event("response.done");
    assert.deepEqual([response.status, response.status_details.type, response.status_details.reason], ["cancelled", "cancelled", "turn_detected"]);
    talk.send({ type: "conversation.item.truncate", item_id: item, content_index: 0, audio_end_ms: 1500 });
    const truncated = await talk.event("conversation.item.truncated");
    assert.deepEqual([truncated.item_id, truncated.content_index, truncated.audio_end_ms], [item, 0, 1500]);
    const next = await talk.event("conversation.item.input_audio_transcription.completed");
    hasWords(next.transcript, SPEECH.first.text);
    const answer = await talk.answer();
    assert.equal(answer.transcript, `echo: ${next.transcript}`);
    await speaking;
    await talk.played(answer); // disconnecting earlier would truncate the answer
    talk.send({ type: "conversation.item.truncate", item_id: item, content_index: 0, audio_end_ms: 3_600_000 });
    const refusal = await talk.event("error");
    assert.equal(refusal.error.param, "audio_end_ms");
    assert.equal(talk.errors.length, 1);
    talk.errors.length = 0;
    talk.close();
    const { messages } = await api(`/api/sessions?id=${talk.session.id}&agentId=${ECHO_ID}`);
    assert.equal(messages.length, 4);
    assert.equal(messages[1].interrupted, true);
    const whole = `echo: ${long}`;
    assert.ok(messages[1].content.length > 3 && messages[1].content.length < whole.length / 4, messages[1].content);
    assert.ok(whole.startsWith(messages[1].content.replace(/\s*…$/, "")), messages[1].content);
    assert.equal(messages[3].interrupted, undefined);
    report.heard = messages[1].content;
  },

  async cancel(kind) {
    const talk = await connect(kind);
    talk.say("A long answer, which nobody wants to hear. ".repeat(10));
    await talk.until("response.output_audio.delta");
    talk.send({ type: "response.cancel" });
    const { response } = await talk.event("response.done");
    assert.deepEqual([response.status, response.status_details.reason], ["cancelled", "client_cancelled"]);
    talk.say("Another one.");
    assert.equal((await talk.answer()).transcript, "echo: Another one.");
    talk.close();
  },

  // A client secret, which a web page may hold, is valid for only one agent and one session.
  async clientSecrets(kind) {
    const secret = await client.realtime.clientSecrets.create({
      expires_after: { anchor: "created_at", seconds: 60 },
      session: { type: "realtime", model: ECHO_ID, output_modalities: ["text"], instructions: "Be brief." },
    });
    assert.match(secret.value, /^ek_/);
    assert.ok(Math.abs(secret.expires_at - Date.now() / 1000 - 60) < 10, String(secret.expires_at));
    assert.deepEqual([secret.session.model, secret.session.output_modalities, secret.session.instructions], [ECHO_ID, ["text"], "Be brief."]);
    const asked = [];
    for (const text of ["Once.", "Twice."]) {
      const talk = await connect(kind, { apiKey: secret.value });
      assert.deepEqual([talk.session.output_modalities, talk.session.instructions], [["text"], "Be brief."]);
      talk.say(text);
      assert.equal((await talk.answer()).text, `echo: ${text}`);
      asked.push(talk.session.id);
      talk.close();
    }
    assert.equal(asked[0], asked[1], "two conversations with one secret have different sessions");
    const { messages } = await api(`/api/sessions?id=${asked[0]}&agentId=${ECHO_ID}`);
    assert.deepEqual(messages.map((m) => m.content), ["Once.", "echo: Once.", "Twice.", "echo: Twice."]);
    await assert.rejects(at(PARLEY_BASE_URL, secret.value).models.list(), OpenAI.AuthenticationError);
    await assert.rejects(at(PARLEY_BASE_URL, secret.value).realtime.clientSecrets.create({ session: { type: "realtime", model: ECHO_ID } }), OpenAI.AuthenticationError);
    await refused(kind, { model: MUTE_ID, apiKey: secret.value });
    await assert.rejects(client.realtime.clientSecrets.create({ session: { type: "realtime" } }), (error) => error.param === "session.model");
    await assert.rejects(client.realtime.clientSecrets.create({ session: { type: "realtime", model: MUTE_ID } }), OpenAI.BadRequestError);
  },

  // Causes errors that prevent a session from starting, and errors within a session.
  async errors(kind) {
    await refused(kind, { apiKey: "ak_none" }, 401);
    await refused(kind, { model: "ag_00000000000000000000000000" }, 404);
    await refused(kind, { model: MUTE_ID }, 400);
    const talk = await connect(kind);
    for (const [session, param] of [
      [{ audio: { input: { format: { type: "audio/pcmu" } } } }, /^session\.audio\.input\.format/],
      [{ audio: { input: { turn_detection: { type: "server_vad", threshold: 7 } } } }, /^session\.audio\.input\.turn_detection\.threshold$/],
      [{ tools: [{ type: "function", name: "f", parameters: {} }] }, /^session\.tools/],
      [{ model: SAYS_ID }, /^session\.model$/],
    ]) {
      talk.send({ type: "session.update", event_id: "mine", session: { type: "realtime", ...session } });
      const { error } = await talk.event("error");
      assert.match(error.param ?? "", param);
      assert.equal(error.event_id, "mine");
      assert.equal(error.type, "invalid_request_error");
    }
    talk.send({ type: "response.create" });
    assert.equal((await talk.event("error")).error.code, "nothing_to_answer");
    talk.say("One sentence that is said. And another one behind it. And one more, so that it lasts.");
    await talk.until("response.created");
    talk.send({ type: "response.create" });
    assert.equal((await talk.event("error")).error.code, "conversation_already_has_active_response");
    await talk.until("response.done");
    assert.equal(talk.errors.length, 6);
    assert.ok(talk.errors.every((e) => e.error.message && e.constructor.name === "OpenAIRealtimeError"));
    talk.errors.length = 0;
    talk.close();
  },

  // A client can add, retrieve and delete an item. Then it requests a text response with its own
  // instructions and metadata.
  async items(kind) {
    const talk = await connect(kind);
    const item = { type: "message", role: "user", content: [{ type: "input_text", text: "Look at me." }], id: "item_mine" };
    talk.send({ type: "conversation.item.create", item });
    assert.equal((await talk.event("conversation.item.added")).item.id, "item_mine");
    assert.equal((await talk.event("conversation.item.done")).item.content[0].text, "Look at me.");
    talk.send({ type: "conversation.item.retrieve", item_id: "item_mine" });
    assert.equal((await talk.event("conversation.item.retrieved")).item.role, "user");
    talk.send({ type: "conversation.item.delete", item_id: "item_mine" });
    assert.equal((await talk.event("conversation.item.deleted")).item_id, "item_mine");
    talk.send({ type: "response.create", response: { instructions: "Greet.", output_modalities: ["text"], metadata: { mine: "yes" } } });
    const { response, text } = await talk.answer();
    assert.equal(text, "echo: Greet.");
    assert.equal(response.metadata.mine, "yes");
    assert.equal((await api(`/api/runs?id=${response.metadata.run_id}`)).status, "completed");
    talk.close();
  },
};

// refused checks that the service rejects the connection. With `ws`, refused also checks the
// response's status, which a browser's WebSocket does not report.
async function refused(kind, options, status) {
  const talk = new Talk(await kinds[kind].create(secure(options.apiKey), { model: options.model ?? ECHO_ID }));
  while (talk.errors.length === 0) {
    assert.equal(talk.queue.length, 0, "a conversation has started");
    await wait(10);
  }
  if (kind === "OpenAIRealtimeWS" && status) assert.match(talk.errors[0].message, new RegExp(`${status}`));
}

// Both clients run simultaneously in separate sessions. The first part of the script takes longest,
// so it runs in parallel with the other parts.
const chosen = process.argv.slice(2);
const run = async (name, kind) => {
  try {
    await parts[name](kind);
  } catch (error) {
    error.message = `${name} with ${kind}: ${error.message}`;
    throw error;
  }
};
// Speech recognition takes most of the time. If SHORT is set, each spoken part runs with only one
// of the two clients.
const spokenBy = { conversation: "OpenAIRealtimeWS", answersWords: "OpenAIRealtimeWebSocket", bargeIn: "OpenAIRealtimeWebSocket" };
const clientsOf = (name) => Object.keys(kinds).filter((kind) => !process.env.SHORT || kind === (spokenBy[name] ?? kind));
const inTurn = async (names) => {
  for (const name of names) await Promise.all(clientsOf(name).map((kind) => run(name, kind)));
};
const names = chosen.length > 0 ? chosen : Object.keys(parts);
await Promise.all([inTurn(names.slice(0, 1)), inTurn(names.slice(1))]);

assert.equal(new Set(seen.map((e) => e.event_id)).size, seen.length, "an event ID is repeated");
assert.ok(seen.every((e) => e.event_id && e.type));
report.types = [...new Set(seen.map((e) => e.type))].sort();
console.log(JSON.stringify({ ...report, parts: Object.keys(parts).length }));
process.exit(0); // open sockets of rejected connections would keep the process running
