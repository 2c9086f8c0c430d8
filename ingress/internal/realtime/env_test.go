package realtime

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// testEnv is a conversation whose ids are numbered. It records the effects of each input, one per
// line.
type testEnv struct {
	tb    testing.TB
	c     *Conversation
	now   time.Time
	ids   map[string]int
	lines []string
	seen  map[string]string // first event of each type, by type
}

func newTestEnv(tb testing.TB, session string) *testEnv {
	tb.Helper()
	r := &testEnv{tb: tb, now: start, seen: map[string]string{}}
	c, err := New(Settings{
		SessionID: "rt_1", Model: "ag_1", Voice: "amber", Session: []byte(session), NewID: r.newID, Expires: start.Add(30 * time.Minute),
	}, start)
	if err != nil {
		tb.Fatal(err)
	}
	r.c = c
	return r
}

func (r *testEnv) newID(prefix string) string {
	if r.ids == nil {
		r.ids = map[string]int{}
	}
	r.ids[prefix]++
	return prefix + "_" + strconv.Itoa(r.ids[prefix])
}

// do executes one input line of a scene file.
func (r *testEnv) do(line string) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "client":
		r.take(r.c.Client(r.now, []byte(rest)))
	case "wait":
		r.now = r.now.Add(time.Duration(number(r.tb, rest)) * time.Millisecond)
	case "hear": // argument: duration of the client's audio, in milliseconds
		samples := make([]byte, number(r.tb, rest)*perMS*sampleBytes)
		r.take(r.c.Client(r.now, []byte(`{"type":"input_audio_buffer.append","audio":"`+base64.StdEncoding.EncodeToString(samples)+`"}`)))
	case "resume":
		r.resume()
	case "open":
		r.take(r.c.Open(""))
	case "gone":
		r.take(Effects{End: r.c.Gone(r.now)})
	case "sent": // arguments: answer, and duration in milliseconds
		name, ms, _ := strings.Cut(rest, " ")
		r.c.Sent(r.now, name, int64(number(r.tb, ms))*perMS)
	case "busy":
		_, busy := r.c.Idle(r.now)
		r.lines = append(r.lines, fmt.Sprintf("busy %v", busy))
	default:
		r.report(word, strings.Fields(rest), rest)
	}
}

func (r *testEnv) report(word string, args []string, rest string) {
	var report contract.VoiceReport
	arg := func(i int) int64 { return int64(number(r.tb, args[i])) }
	after := func(i int) string { return strings.TrimSpace(strings.Join(strings.SplitN(rest, " ", i+1)[i:], "")) }
	switch word {
	case "alive": // arguments: processed position and needed position, in milliseconds
		report = contract.VoiceReport{Type: contract.VoiceAlive, Heard: arg(0) * perMS, Needs: arg(1) * perMS}
	case "started": // arguments: id of the item, and start of the speech in milliseconds
		report = contract.VoiceReport{Type: contract.VoiceStarted, Item: args[0], From: arg(1) * perMS}
	case "stopped":
		report = contract.VoiceReport{Type: contract.VoiceStopped, Item: args[0], From: arg(1) * perMS, To: arg(2) * perMS}
	case "transcript":
		report = contract.VoiceReport{Type: contract.VoiceTranscript, Item: args[0], Text: after(1)}
	case "segment": // arguments: answer, and start and end of the segment in bytes
		report = contract.VoiceReport{Type: contract.VoiceSegment, Answer: args[0], Start: int(arg(1)), End: int(arg(2))}
	case "said":
		report = contract.VoiceReport{Type: contract.VoiceSaid, Answer: args[0]}
	case "failed": // argument: the report as JSON
		report.Type = contract.VoiceFailed
		must(r.tb, json.Unmarshal([]byte(rest), &report))
	default:
		r.run(word, args, rest)
		return
	}
	r.take(r.c.Report(r.now, report))
}

func (r *testEnv) run(word string, args []string, rest string) {
	after := strings.TrimPrefix(rest, args[0])
	after = strings.TrimPrefix(after, " ")
	switch word {
	case "speech": // arguments: answer, start and end in bytes, duration in ms; sent to the client at once unless another word follows
		ms := number(r.tb, args[3])
		e := r.c.Audio(r.now, contract.VoiceAudio{
			Answer: args[0], Start: number(r.tb, args[1]), End: number(r.tb, args[2]), PCM: make([]byte, ms*perMS*sampleBytes),
		})
		r.take(e)
		for _, event := range e.Events {
			if event.Answer != "" && len(args) == 4 {
				r.c.Sent(r.now, event.Answer, event.Samples)
			}
		}
	case "begun":
		r.take(r.c.Begun(r.now, args[0], args[1]))
	case "refused":
		r.take(r.c.Refused(r.now, args[0], apierr.New(apierr.Code(args[1]), "no more for now")))
	case "cut":
		r.take(r.c.Cut(r.now, args[0]))
	case "delta":
		data, err := domain.DeltaData(unquoted(r.tb, after))
		must(r.tb, err)
		r.take(r.c.Run(r.now, args[0], domain.Event{Type: domain.EventMessageDelta, Data: data}))
	case "restarted":
		r.take(r.c.Run(r.now, args[0], domain.Event{Type: domain.EventRunRestarted, Data: domain.RestartedData(1)}))
	case "requires":
		data := []byte(`{"status":"requires_action","requiredAction":{"name":"send_email","callId":"call_1"}}`)
		r.take(r.c.Run(r.now, args[0], domain.Event{Type: domain.EventRequiresAction, Data: data}))
	case "completed":
		r.ended(args[0], domain.RunCompleted, unquoted(r.tb, after), nil)
	case "ended": // arguments: answer and status
		r.ended(args[0], domain.RunStatus(args[1]), "", &domain.RunError{Code: "model_error", Message: "the model failed"})
	default:
		r.tb.Fatalf("no such line: %s %s", word, rest)
	}
}

func (r *testEnv) ended(name string, status domain.RunStatus, message string, cause *domain.RunError) {
	run := domain.Run{ID: "run_x", Status: status, Message: &message, Usage: domain.Usage{InputTokens: 7, OutputTokens: 3}, Error: cause}
	if strings.Contains(message, "[1]") {
		run.Citations = []domain.Citation{{ID: 1, Type: "web", Title: "Page", URL: "https://example.com/", StartIndex: 0, EndIndex: 3}}
	}
	result, err := run.Render()
	must(r.tb, err)
	r.take(r.c.Run(r.now, name, domain.EndedEvent(domain.EventID{Fence: 1, N: 9}, status, result)))
}

func (r *testEnv) resume() {
	out := r.c.Resume()
	line := fmt.Sprintf("opens at %d listening %v", out.Open.Position/perMS, out.Open.Config.Detection != nil)
	if s := out.Open.Speech; s != nil {
		line += fmt.Sprintf(" speech %s from %d", s.Item, s.From/perMS)
	}
	r.lines = append(r.lines, line)
	r.take(Effects{Audio: out.Audio, Commands: out.Commands})
}

// take records effects as lines and checks every event.
func (r *testEnv) take(e Effects) {
	for _, name := range e.Drop {
		r.lines = append(r.lines, "drop "+name)
	}
	for _, event := range e.Events {
		r.lines = append(r.lines, r.event(event))
	}
	for _, a := range e.Audio {
		if n := len(a.PCM) / sampleBytes; n > contract.MaxVoiceFrame || n == 0 || a.Answer != "" {
			r.tb.Errorf("a frame of %d samples for the worker, answer %q", n, a.Answer)
		}
		r.lines = append(r.lines, fmt.Sprintf("audio %d to %d", a.At/perMS, (a.At+int64(len(a.PCM)/sampleBytes))/perMS))
	}
	for _, command := range e.Commands {
		r.lines = append(r.lines, commandLine(command))
	}
	for _, ended := range e.End {
		line := fmt.Sprintf("end %s %s", ended.Answer, ended.RunID)
		if ended.Cancel {
			line += " cancel"
		}
		if ended.Heard != nil {
			line += fmt.Sprintf(" heard %q %d ms", ended.Heard.Text, ended.Heard.AudioMS)
		}
		r.lines = append(r.lines, line)
	}
	for _, turn := range e.Begin {
		line := fmt.Sprintf("begin %s %q", turn.Answer, turn.Message)
		if turn.Instructions != "" {
			line += fmt.Sprintf(" instructions %q", turn.Instructions)
		}
		for _, h := range turn.History {
			line += fmt.Sprintf(" history %q %q", h.Message, h.Answer)
		}
		r.lines = append(r.lines, line)
	}
	if e.Close != nil {
		r.lines = append(r.lines, fmt.Sprintf("close %d %s", e.Close.Code, e.Close.Reason))
	}
}

func commandLine(command contract.VoiceCommand) string {
	line := command.Type
	switch command.Type {
	case contract.VoiceCommit:
		line += fmt.Sprintf(" %s %d to %d", command.Item, command.From/perMS, command.To/perMS)
	case contract.VoiceClear:
		line += fmt.Sprintf(" %d", command.From/perMS)
	case contract.VoiceSay:
		line += fmt.Sprintf(" %s at %d %q", command.Answer, command.Start, command.Text)
		if command.Skip != 0 {
			line += fmt.Sprintf(" skip %d", command.Skip/perMS)
		}
		if command.Last {
			line += " last"
		}
	case contract.VoiceStop:
		line += " " + command.Answer
	case contract.VoiceConfigure:
		raw, err := json.Marshal(command.Config)
		if err != nil {
			return err.Error()
		}
		line += " " + string(raw)
	}
	return line
}

// event formats an event as a line with its type and the fields that tests check.
func (r *testEnv) event(e Event) string {
	var fields map[string]any
	if err := json.Unmarshal(e.Body, &fields); err != nil {
		r.tb.Fatalf("%v: %s", err, e.Body)
	}
	kind, _ := fields["type"].(string)
	if err := checkEvent(fields); err != nil {
		r.tb.Errorf("%v: %s", err, e.Body)
	}
	if _, there := r.seen[kind]; !there {
		r.seen[kind] = string(e.Body)
	}
	line := kind
	for _, path := range []string{
		"item_id", "previous_item_id", "audio_start_ms", "audio_end_ms", "transcript", "text", "item.id", "item.role", "item.status",
		"item.content", "part", "response.status", "response.status_details", "response.metadata", "response.usage.total_tokens",
		"error.type", "error.code", "error.param", "error.event_id", "error.message", "session.audio", "session.instructions",
		"session.output_modalities",
	} {
		if value, ok := at(fields, path); ok && (kind == "conversation.item.added" || path != "previous_item_id") {
			raw, err := json.Marshal(value)
			must(r.tb, err)
			line += " " + path + "=" + string(raw)
		}
	}
	if delta, ok := fields["delta"].(string); ok {
		if e.Answer != "" {
			line += fmt.Sprintf(" of %d ms", e.Samples/perMS)
		} else {
			line += fmt.Sprintf(" %q", delta)
		}
	}
	return line
}

func at(fields map[string]any, path string) (any, bool) {
	var value any = fields
	for name := range strings.SplitSeq(path, ".") {
		object, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		if value, ok = object[name]; !ok {
			return nil, false
		}
	}
	return value, true
}

// needed lists the fields that the official client's types require in each event, in addition to
// type and event_id.
var needed = map[string][]string{
	"session.created":                                       {"session.type", "session.audio.input.format.type", "session.audio.output.format.type"},
	"session.updated":                                       {"session.type", "session.audio.input.format.type", "session.audio.output.format.type"},
	"error":                                                 {"error.message", "error.type"},
	"input_audio_buffer.committed":                          {"item_id"},
	"input_audio_buffer.cleared":                            {},
	"input_audio_buffer.speech_started":                     {"audio_start_ms", "item_id"},
	"input_audio_buffer.speech_stopped":                     {"audio_end_ms", "item_id"},
	"conversation.item.added":                               {"item.type", "item.role", "item.content"},
	"conversation.item.done":                                {"item.type", "item.role", "item.content"},
	"conversation.item.retrieved":                           {"item.type", "item.role", "item.content"},
	"conversation.item.deleted":                             {"item_id"},
	"conversation.item.truncated":                           {"audio_end_ms", "content_index", "item_id"},
	"conversation.item.input_audio_transcription.completed": {"content_index", "item_id", "transcript", "usage.type", "usage.seconds"},
	"conversation.item.input_audio_transcription.failed":    {"content_index", "item_id", "error"},
	"response.created":                                      {"response.id", "response.status"},
	"response.done":                                         {"response.id", "response.status", "response.output", "response.status_details.type"},
	"response.output_item.added":                            {"item.type", "item.role", "item.content", "output_index", "response_id"},
	"response.output_item.done":                             {"item.type", "item.role", "item.content", "output_index", "response_id"},
	"response.content_part.added":                           {"content_index", "item_id", "output_index", "response_id", "part.type"},
	"response.content_part.done":                            {"content_index", "item_id", "output_index", "response_id", "part.type"},
	"response.output_audio.delta":                           {"content_index", "delta", "item_id", "output_index", "response_id"},
	"response.output_audio.done":                            {"content_index", "item_id", "output_index", "response_id"},
	"response.output_audio_transcript.delta":                {"content_index", "delta", "item_id", "output_index", "response_id"},
	"response.output_audio_transcript.done":                 {"content_index", "transcript", "item_id", "output_index", "response_id"},
	"response.output_text.delta":                            {"content_index", "delta", "item_id", "output_index", "response_id"},
	"response.output_text.done":                             {"content_index", "text", "item_id", "output_index", "response_id"},
}

// checkEvent returns an error if a required field is missing.
func checkEvent(fields map[string]any) error {
	kind, _ := fields["type"].(string)
	names, known := needed[kind]
	if !known {
		return fmt.Errorf("no server event is called %q", kind)
	}
	for _, name := range append(slices.Clone(names), "event_id") {
		if value, ok := at(fields, name); !ok || value == nil {
			return fmt.Errorf("%s has no %s", kind, name)
		}
	}
	return nil
}

func number(tb testing.TB, text string) int {
	tb.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func unquoted(tb testing.TB, text string) string {
	tb.Helper()
	out, err := strconv.Unquote(text)
	if err != nil {
		tb.Fatalf("%v: %s", err, text)
	}
	return out
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
