package realtime

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
)

func appended(ms int) []byte {
	return []byte(`{"type":"input_audio_buffer.append","audio":"` + base64.StdEncoding.EncodeToString(make([]byte, ms*perMS*sampleBytes)) + `"}`)
}

// lastLine returns the last line that was recorded.
func (r *testEnv) lastLine() string { return r.lines[len(r.lines)-1] }

func TestTheBufferIsBounded(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, `{"audio":{"input":{"turn_detection":null}}}`)
	for range 120 {
		r.take(r.c.Client(r.now, appended(1000)))
	}
	if r.lastLine() != "audio 119000 to 120000" || r.c.Unheard() != 120*contract.VoiceRate {
		t.Fatalf("%s, %d unheard", r.lastLine(), r.c.Unheard())
	}
	r.take(r.c.Client(r.now, appended(1)))
	if !strings.Contains(r.lastLine(), `error.code="input_audio_buffer_full"`) {
		t.Fatal(r.lastLine())
	}
	r.do(`client {"type":"input_audio_buffer.commit"}`)
	if r.lastLine() != "commit item_1 0 to 120000" {
		t.Fatal(r.lastLine())
	}
	for range 120 { // audio without a transcript stays in memory
		r.take(r.c.Client(r.now, appended(1000)))
	}
	r.do(`client {"type":"input_audio_buffer.commit"}`)
	r.take(r.c.Client(r.now, appended(1)))
	if !strings.Contains(r.lastLine(), `error.code="input_audio_buffer_full"`) {
		t.Fatal(r.lastLine())
	}
	if !strings.Contains(r.lastLine(), "too much audio is waiting for commit or transcription") {
		t.Fatal(r.lastLine())
	}
	r.do("transcript item_1 x")
	r.take(r.c.Client(r.now, appended(1)))
	if r.lastLine() != "audio 240000 to 240001" {
		t.Fatal(r.lastLine())
	}
}

func TestUnheardCountsAudioTheWorkerHasNotProcessed(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, "")
	want := func(ms int64) {
		t.Helper()
		if got := r.c.Unheard(); got != ms*perMS {
			t.Errorf("%d ms are unheard, want %d", got/perMS, ms)
		}
	}
	r.take(r.c.Client(r.now, appended(1000)))
	want(1000)
	r.do("alive 800 500")
	want(200)
	r.do("alive 700 400") // an outdated report has no effect
	want(200)
	r.do("alive 5000 600") // the position is beyond the audio that the client has sent
	want(0)
	r.take(r.c.Client(r.now, appended(300)))
	want(300)
	r.do("resume") // another worker receives the audio again, from 600 ms on
	want(700)
}

func TestItemsAreBounded(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, "")
	for i := range maxItems + 20 {
		r.do(fmt.Sprintf(`client {"type":"conversation.item.create","item":`+
			`{"id":"i%d","type":"message","role":"user","content":[{"type":"input_text","text":"t%d"}]}}`, i, i))
	}
	if n := len(r.c.items); n != maxItems {
		t.Errorf("%d items", n)
	}
	r.do(`client {"type":"conversation.item.retrieve","item_id":"i19"}`)
	if !strings.Contains(r.lastLine(), "item_not_found") {
		t.Error(r.lastLine())
	}
	r.do(`client {"type":"conversation.item.retrieve","item_id":"i20"}`)
	if !strings.Contains(r.lastLine(), `"t20"`) {
		t.Error(r.lastLine())
	}
}

func TestTextsAreBounded(t *testing.T) {
	t.Parallel()
	item := func(role string, n int) string {
		return fmt.Sprintf(`client {"type":"conversation.item.create","item":`+
			`{"type":"message","role":%q,"content":[{"type":"input_text","text":%q}]}}`, role, strings.Repeat("ü", n))
	}
	for _, tc := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"a long message", []string{item("user", 32_000)}, "conversation.item.done"},
		{"a longer one", []string{item("user", 32_001)}, `error.param="item.content[0].text"`},
		{"two, both unanswered", []string{item("user", 31_000), item("user", 999)}, `error.param="item.content"`},
		{"two that fit", []string{item("user", 31_000), item("user", 998)}, "conversation.item.done"},
		{"two system items", []string{item("system", 20_000), item("system", 12_000)}, `error.param="item.content"`},
		{"instructions and a text", []string{
			item("system", 20_000), `client {"type":"session.update","session":{"instructions":"` + strings.Repeat("i", 11_999) + `"}}`,
		}, `error.param="session.instructions"`},
		{"instructions of a response and a text", []string{
			item("system", 20_000), `client {"type":"response.create","response":{"instructions":"` + strings.Repeat("i", 11_999) + `"}}`,
		}, `error.param="response.instructions"`},
		{"much metadata", []string{
			`client {"type":"response.create","response":{"instructions":"x","metadata":{` + strings.Repeat(`"a":"b",`, 3) + manyPairs(17) + `}}}`,
		}, `error.param="response.metadata"`},
		{"enough metadata", []string{`client {"type":"response.create","response":{"instructions":"x","metadata":{` + manyPairs(16) + `}}}`}, "begin"},
		{"a long value", []string{
			`client {"type":"response.create","response":{"instructions":"x","metadata":{"k":"` + strings.Repeat("v", 513) + `"}}}`,
		}, `error.param="response.metadata.k"`},
		{"a long event id", []string{`client {"type":"response.cancel","event_id":"` + strings.Repeat("v", 513) + `"}`}, `error.param="event_id"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newTestEnv(t, "")
			for _, line := range tc.lines {
				r.do(line)
			}
			if !strings.Contains(r.lastLine(), tc.want) {
				t.Errorf("%.300s", r.lastLine())
			}
		})
	}
}

func manyPairs(n int) string {
	pairs := make([]string, n)
	for i := range pairs {
		pairs[i] = fmt.Sprintf(`"n%d":"v"`, i)
	}
	return strings.Join(pairs, ",")
}

func TestMessagesAndHistoriesAreBounded(t *testing.T) {
	t.Parallel()
	half := strings.Repeat("h", 16_000)
	for _, tc := range []struct {
		texts []string
		want  string
	}{
		{nil, ""},
		{[]string{"one", "two"}, "one\n\ntwo"},
		{[]string{"old", half, half}, half},
		{[]string{half + half}, half + half},
		{[]string{"old", half + half}, half + half},
	} {
		if got := fitting(tc.texts); got != tc.want {
			t.Errorf("%d texts became %.20q… of %d", len(tc.texts), got, len(got))
		}
	}
	long := strings.Repeat("x", 99_000)
	history := []domain.Exchange{{Message: "a", Answer: long}, {Message: "b", Answer: long}, {Message: "c", Answer: long}}
	if got := kept(history); len(got) != 2 || got[0].Message != "b" {
		t.Errorf("%d exchanges", len(got))
	}
}

func TestSessionsOfClientSecrets(t *testing.T) {
	t.Parallel()
	given := `{"type":"realtime","model":"ag_1","unknown":"` + strings.Repeat("x", 5000) + `","audio":{"output":{"voice":"echo","speed":1.5},` +
		`"input":{"turn_detection":{"type":"semantic_vad","eagerness":"low"},"transcription":{"language":"en","model":"whisper-1"}}}}`
	r := newTestEnv(t, given)
	r.do("open")
	for _, want := range []string{`"eagerness":"low"`, `"voice":"echo"`, `"speed":1.5`, `"language":"en"`} {
		if !strings.Contains(r.lastLine(), want) {
			t.Errorf("no %s in %s", want, r.lastLine())
		}
	}
}

func TestInvalidSessions(t *testing.T) {
	t.Parallel()
	for session, field := range map[string]string{
		`7`:                          "session",
		`{"model":"ag_2"}`:           "session.model",
		`{"type":"transcription"}`:   "session.type",
		`{"audio":{"output":{"x":`:   "session",
		`{"audio":{"input":7}}`:      "session.audio.input",
		`{"tools":[{"type":"mcp"}]}`: "session.tools",
		`{"output_modalities":[7]}`:  "session.output_modalities",
		`{"instructions":"` + strings.Repeat("x", 32_001) + `"}`: "session.instructions",
	} {
		_, err := New(Settings{Model: "ag_1", Session: []byte(session), NewID: func(p string) string { return p }}, start)
		coded, ok := errors.AsType[*apierr.Error](err)
		if !ok || coded.Code != apierr.InvalidRequest || coded.Fields[0].Field != field {
			t.Errorf("%.50s: %v", session, err)
		}
	}
}

func TestPlayheads(t *testing.T) {
	t.Parallel()
	var p playhead
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	want := func(now, ms int) {
		t.Helper()
		if got := p.advance(at(now)); got != int64(ms)*perMS {
			t.Errorf("at %d ms, %d ms were played, want %d", now, got/perMS, ms)
		}
	}
	want(0, 0)
	p.more(at(100), 500*perMS)
	want(100, 0)
	for now := 100; now < 400; now++ { // the rounding errors of frequent calls must not accumulate
		p.advance(at(now).Add(313 * time.Microsecond))
	}
	want(400, 300)
	want(700, 500)
	p.more(at(1000), 100*perMS) // playback pauses until these samples arrive
	want(1050, 550)
	want(2000, 600)
	if left := p.left(at(2000)); left != 0 {
		t.Errorf("%s are left", left)
	}
	p.more(at(3000), 48_000)
	if left := p.left(at(4000)); left != time.Second {
		t.Errorf("%s are left", left)
	}
}

// The audio of an answer begins to play when the audio of the previous answer ends.
func TestAnswersPlayOneAfterTheOther(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, "")
	for _, line := range []string{
		"resume",
		`client {"type":"response.create","response":{"instructions":"x"}}`, "begun item_1 run_01", `completed item_1 "One word."`,
		"speech item_1 0 9 2000", "segment item_1 0 9", "said item_1", "wait 500",
		`client {"type":"response.create","response":{"instructions":"x"}}`, "begun item_2 run_02", `completed item_2 "A b c d e f g h i j"`,
		"speech item_2 0 19 1000", "segment item_2 0 19", "wait 2000", "client {\"type\":\"response.cancel\"}",
	} {
		r.do(line)
	}
	if want := `end item_2 run_02 heard "A b c d e" 500 ms`; r.lastLine() != want {
		t.Errorf("%s, not %s", r.lastLine(), want)
	}
}

func TestHeardText(t *testing.T) {
	t.Parallel()
	s := spoken{text: []byte("Eins zwei drei. Grüße, vier  fünf! Rest"), segments: []segment{
		{15, 3000, true}, {37, 4000, true}, {42, 100, false},
	}}
	for _, tc := range []struct {
		samples int64
		want    string
	}{
		{0, ""},
		{999, ""},
		{1000, "Eins"},
		{2999, "Eins zwei"},
		{3000, "Eins zwei drei."},
		{4400, "Eins zwei drei. Grüße,"},
		{5700, "Eins zwei drei. Grüße, vier"},
		{6999, "Eins zwei drei. Grüße, vier"},
		{7000, "Eins zwei drei. Grüße, vier  fünf!"},
		{7099, "Eins zwei drei. Grüße, vier  fünf!"},
	} {
		if got := s.heard(tc.samples); got.Text != tc.want || got.AudioMS != tc.samples/perMS {
			t.Errorf("%d samples: %q, %d ms", tc.samples, got.Text, got.AudioMS)
		}
	}
	alone := spoken{text: []byte("one two three four"), segments: []segment{{18, 14_400, false}}} // twice the usual speed of speech
	if got := alone.heard(14_400); got.Text != "one two" {
		t.Errorf("%q", got.Text)
	}
	if empty := (&spoken{}).heard(0); empty.Text != "" || empty.AudioMS != 0 {
		t.Errorf("%+v", empty)
	}
}

// The spoken segments that a worker reports are limited to the text of the answer and never split a
// character.
func TestSegmentsAreLimitedToTheText(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, "")
	for _, line := range []string{
		`client {"type":"response.create","response":{"instructions":"x"}}`, "begun item_1 run_01", `delta item_1 "ä ö ü"`,
		"speech item_1 0 1 10", "speech item_1 0 3 10", "segment item_1 0 3", "segment item_1 0 2", "speech item_1 99 -5 10", "segment item_1 3 999",
		"segment item_1 999 9999", "speech item_1 8 8 10", `completed item_1 "ä ö ü"`, "said item_1",
	} {
		r.do(line)
	}
	reported := strings.Join(r.lines, "\n")
	for _, want := range []string{`delta item_id="item_1" "ä"`, `delta item_id="item_1" " "`, `delta item_id="item_1" "ö ü"`, `transcript="ä ö ü"`} {
		if !strings.Contains(reported, want) {
			t.Errorf("no %s in %s", want, reported)
		}
	}
}

// If an answer lasts more than a minute and has segments of ten seconds, it is truncated at the
// position that the client reports.
func TestLongAnswers(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, "")
	r.do(`client {"type":"response.create","response":{"instructions":"x"}}`)
	r.do("begun item_1 run_01")
	sentence := "And so it went on and on. "
	for i := range 12 {
		r.do(fmt.Sprintf("delta item_1 %q", sentence))
		for range 100 {
			r.do(fmt.Sprintf("speech item_1 %d %d 100", i*26, i*26+26))
			r.now = r.now.Add(100 * time.Millisecond)
		}
		r.do(fmt.Sprintf("segment item_1 %d %d", i*26, i*26+26))
		r.do("resume")
		if !strings.HasPrefix(r.lastLine(), "opens at 0") {
			t.Fatal(r.lastLine())
		}
	}
	r.do(fmt.Sprintf("completed item_1 %q", strings.Repeat(sentence, 12)))
	r.do("said item_1")
	r.do(`client {"type":"conversation.item.truncate","item_id":"item_1","content_index":0,"audio_end_ms":70000}`)
	if want := fmt.Sprintf("end item_1 run_01 heard %q 70000 ms", strings.TrimSpace(strings.Repeat(sentence, 7))); r.lastLine() != want {
		t.Errorf("%s, not %s", r.lastLine(), want)
	}
}

func TestErrorsOfTheGate(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, "")
	line := r.event(r.c.Error("session_expired", "the session has lasted 30 minutes"))
	if want := `error error.type="server_error" error.code="session_expired" error.message="the session has lasted 30 minutes"`; line != want {
		t.Errorf("%s", line)
	}
}

// The idle time begins at the last activity of the user or of the agent. Audio that contains no
// speech is not activity.
func TestIdle(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, "")
	want := func(since time.Time, busy bool) {
		t.Helper()
		if s, b := r.c.Idle(r.now); !s.Equal(since) || b != busy {
			t.Errorf("since %s, busy %v", s.Sub(start), b)
		}
	}
	want(start, false)
	r.now = r.now.Add(time.Minute)
	r.do("hear 1000")
	r.do("alive 1000 700")
	want(start, false)
	r.do("started A 100")
	r.now = r.now.Add(time.Minute)
	want(r.now, true)
	r.do("stopped A 100 800")
	want(r.now, true)
	r.do("transcript A")
	heard := r.now
	r.now = r.now.Add(time.Minute)
	want(heard, false)
	r.do(`client {"type":"response.cancel"}`)
	want(r.now, false)
}

// The items of a conversation, including the assistant's, may contain only a limited amount of
// text.
func TestTextsOfItemsAreBounded(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, "")
	for range 100 {
		r.do(`client {"type":"conversation.item.create","item":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"` +
			strings.Repeat("x", 32_000) + `"}]}}`)
	}
	if n := len(r.c.items); n != maxTexts/32_000 {
		t.Errorf("%d items", n)
	}
}

func TestPendingTranscriptsAreBounded(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, `{"audio":{"input":{"turn_detection":null}}}`)
	audio := base64.StdEncoding.EncodeToString(make([]byte, commitLeast*sampleBytes))
	item := `client {"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_audio","audio":"` + audio + `"}]}}`
	for range maxWaits {
		r.do("hear 100")
		r.do(`client {"type":"input_audio_buffer.commit"}`)
	}
	if !strings.HasPrefix(r.lastLine(), "commit") {
		t.Fatal(r.lastLine())
	}
	r.do("hear 100")
	for _, line := range []string{`client {"type":"input_audio_buffer.commit"}`, item} {
		r.do(line)
		if !strings.Contains(r.lastLine(), `error.code="input_audio_buffer_full"`) {
			t.Error(r.lastLine())
		}
	}
	r.do("transcript item_1 x")
	r.do(`client {"type":"input_audio_buffer.commit"}`)
	if !strings.HasPrefix(r.lastLine(), "commit") {
		t.Error(r.lastLine())
	}
}

// A text that is too long for one bus message is sent to the worker in pieces. The pieces together
// form the text.
func TestLongTextsAreSentInPieces(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("ä€x", 30_000)
	a := &answer{id: "a", last: true, spoken: spoken{text: []byte(text)}}
	var said strings.Builder
	commands := a.say(nil, 6, 7)
	for i, command := range commands {
		last := i == len(commands)-1
		if command.Start != 6+said.Len() || command.Last != last || command.Skip > 0 != (i == 0) ||
			!utf8.ValidString(command.Text) || len(command.Text) > maxSay+3 {
			t.Errorf("%d of %d: at %d, last %v, skip %d, %d bytes", i, len(commands), command.Start, command.Last, command.Skip, len(command.Text))
		}
		said.WriteString(command.Text)
	}
	if said.String() != text[6:] || len(commands) < 4 {
		t.Errorf("%d bytes in %d commands", said.Len(), len(commands))
	}
}
