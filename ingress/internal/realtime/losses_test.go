package realtime

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/shared/contract"
	"parley/shared/domain"
)

// talk is a connection whose workers are lost at random moments. Its client speaks, waits for the
// answer, and speaks again.
type talk struct {
	tb       testing.TB
	dice     *rand.Rand
	losses   float64
	c        *Conversation
	now      time.Time
	names    int
	ids      int
	worker   *worker
	client   []string // events that the client has still to send
	turns    []string // turns that the client has still to speak
	run      []domain.Event
	answer   string
	manual   bool
	reported strings.Builder // events that the client has received, without their ids
	spoken   strings.Builder
	waiting  bool // whether the client waits for an answer
}

func (k *talk) newID(prefix string) string {
	k.ids++
	return fmt.Sprintf("%s_%d", prefix, k.ids)
}

// say queues the events with which the client speaks the given words. Each letter consists of 500
// equal samples, and there is silence before and after the words.
func (k *talk) say(words string) {
	silence := make([]byte, 4000*sampleBytes)
	samples := slices.Clone(silence[:1000*sampleBytes])
	for _, letter := range words {
		for range 500 {
			samples = binary.LittleEndian.AppendUint16(samples, uint16(letter))
		}
	}
	samples = append(samples, silence...)
	if words[0] == 'i' { // words that begin with i are sent as an item between appends of audio
		part := `{"type":"input_audio","audio":"` + base64.StdEncoding.EncodeToString(samples) + `"}`
		k.client = append(k.client,
			`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[`+part+`]}}`, `{"type":"response.create"}`)
		return
	}
	for len(samples) > 0 {
		n := min(len(samples), (1+k.dice.IntN(700))*sampleBytes)
		k.client = append(k.client, `{"type":"input_audio_buffer.append","audio":"`+base64.StdEncoding.EncodeToString(samples[:n])+`"}`)
		samples = samples[n:]
	}
	if k.manual {
		k.client = append(k.client, `{"type":"input_audio_buffer.commit"}`, `{"type":"response.create"}`)
	}
}

// step executes a randomly chosen step. It returns false if no step is possible.
func (k *talk) step() bool {
	k.now = k.now.Add(time.Duration(k.dice.IntN(20)) * time.Millisecond)
	if k.worker != nil && k.dice.Float64() < k.losses {
		k.worker = nil
	}
	var can []func()
	if len(k.client) > 0 {
		can = append(can, k.send)
	}
	if len(k.run) > 0 {
		can = append(can, k.emit)
	}
	switch {
	case k.worker == nil:
		can = append(can, k.open)
	case len(k.worker.out) > 0:
		can = append(can, k.deliver)
	}
	if len(can) == 0 && !k.waiting && len(k.turns) > 0 {
		k.waiting = true
		can = append(can, func() { k.say(k.turns[0]); k.turns = k.turns[1:] })
	}
	if len(can) == 0 {
		return false
	}
	can[k.dice.IntN(len(can))]()
	return true
}

func (k *talk) send() {
	next := k.client[0]
	k.client = k.client[1:]
	k.take(k.c.Client(k.now, []byte(next)))
}

func (k *talk) emit() {
	next := k.run[0]
	k.run = k.run[1:]
	k.take(k.c.Run(k.now, k.answer, next))
}

func (k *talk) deliver() {
	next := k.worker.out[0]
	k.worker.out = k.worker.out[1:]
	if next.audio != nil {
		k.take(k.c.Audio(k.now, *next.audio))
		return
	}
	k.take(k.c.Report(k.now, *next.report))
}

func (k *talk) open() {
	out := k.c.Resume()
	k.worker = newWorker(k.tb, &k.names, out.Open)
	k.take(Effects{Audio: out.Audio, Commands: out.Commands})
}

func (k *talk) take(e Effects) {
	for _, event := range e.Events {
		k.event(event)
	}
	if k.worker != nil {
		for _, a := range e.Audio {
			k.worker.hear(a)
		}
		for _, command := range e.Commands {
			k.worker.command(command)
		}
	}
	if unheard := k.c.Unheard(); unheard < 0 {
		k.tb.Errorf("%d samples are unheard", unheard)
	}
	for _, ended := range e.End {
		if ended.Cancel || ended.Heard != nil {
			k.tb.Errorf("an answer ended with %+v", ended)
		}
	}
	for _, turn := range e.Begin {
		fmt.Fprintf(&k.reported, "turn %q\n", turn.Message)
		k.begin(turn)
	}
}

// begin starts a run that answers in pieces of random length.
func (k *talk) begin(turn Turn) {
	k.answer = turn.Answer
	k.take(k.c.Begun(k.now, turn.Answer, "run_"+turn.Answer))
	text := "You said " + turn.Message + ". " + strings.Repeat("And I say… ", len(turn.Message)) + "so. Do you? Yes."
	for rest := []rune(text); len(rest) > 0; {
		n := min(len(rest), 1+k.dice.IntN(12))
		data, err := domain.DeltaData(string(rest[:n]))
		must(k.tb, err)
		k.run = append(k.run, domain.Event{Type: domain.EventMessageDelta, Data: data})
		rest = rest[n:]
	}
	result, err := json.Marshal(domain.Run{Status: domain.RunCompleted, Message: &text})
	must(k.tb, err)
	k.run = append(k.run, domain.EndedEvent(domain.EventID{Fence: 1, N: 1}, domain.RunCompleted, result))
}

func (k *talk) event(e Event) {
	var fields struct {
		Type       string `json:"type"`
		Delta      string `json:"delta"`
		Transcript string `json:"transcript"`
		Response   struct {
			Status string `json:"status"`
		} `json:"response"`
		Error json.RawMessage `json:"error"`
	}
	must(k.tb, json.Unmarshal(e.Body, &fields))
	switch fields.Type {
	case "error":
		k.tb.Errorf("an error: %s", fields.Error)
	case "response.output_audio_transcript.delta":
		k.spoken.WriteString(fields.Delta)
	case "response.output_audio.delta":
		samples, err := base64.StdEncoding.DecodeString(fields.Delta)
		must(k.tb, err)
		k.reported.Write(samples)
		k.c.Sent(k.now, e.Answer, e.Samples)
	case "response.output_audio_transcript.done":
		if k.spoken.String() != fields.Transcript {
			k.tb.Errorf("the deltas are %q, the transcript is %q", k.spoken.String(), fields.Transcript)
		}
		k.spoken.Reset()
	case "response.done":
		k.waiting = false
	}
	if !strings.HasSuffix(fields.Type, "delta") {
		fmt.Fprintf(&k.reported, "%s %q %s\n", fields.Type, fields.Transcript, fields.Response.Status)
	}
}

// converse simulates a connection until it ends. It returns the events that the client has
// received.
func converse(tb testing.TB, seed uint64, losses float64, session string, turns ...string) string {
	tb.Helper()
	k := &talk{tb: tb, losses: losses, now: start, turns: turns, manual: strings.Contains(session, "null")}
	k.dice = rand.New(rand.NewPCG(seed, 1))
	c, err := New(Settings{Model: "ag_1", Session: []byte(session), NewID: k.newID}, start)
	must(tb, err)
	k.c = c
	for steps := 0; k.step(); steps++ {
		if steps > 200_000 {
			tb.Fatalf("no end: waiting %v, %d turns, worker %+v, sent %s", k.waiting, len(k.turns), k.worker, k.reported.String())
		}
	}
	if k.waiting || len(k.turns) > 0 {
		tb.Errorf("the connection is stuck: %d turns left, sent %s", len(k.turns), k.reported.String())
	}
	if n := len(c.input.blocks); n > 3 {
		tb.Errorf("%d blocks of audio are kept", n)
	}
	return k.reported.String()
}

// The client receives the same events and samples, however often and whenever workers are lost.
func TestLostWorkersAreNotNoticed(t *testing.T) {
	t.Parallel()
	for name, session := range map[string]string{
		"listening": `{"audio":{"input":{"turn_detection":{"interrupt_response":false}}}}`,
		"manual":    `{"audio":{"input":{"turn_detection":null}}}`,
	} {
		turns := []string{"abc", "x", "item", "hello"}
		want := converse(t, 0, 0, session, turns...)
		if strings.Count(want, "response.done") != len(turns) || !strings.Contains(want, `"abc"`) || strings.Count(want, "failed") > 0 {
			t.Fatalf("%s: %s", name, want)
		}
		for seed := range uint64(48) {
			got := converse(t, seed, []float64{0.002, 0.01, 0.05, 0.2}[seed%4], session, turns...)
			if got != want {
				t.Fatalf("%s, seed %d: %s", name, seed, firstDifference(got, want))
			}
		}
	}
}

// The size of the audio frames for a worker never exceeds the limit. After the loss of a worker,
// the same samples are sent again.
func TestSamplesAreResentUnchanged(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(5, 6))
	var in input
	var all []byte
	for range 300 {
		samples := make([]byte, dice.IntN(12_000)*sampleBytes)
		for i := range samples {
			samples[i] = byte(dice.Uint32())
		}
		got, err := in.decode([]byte(base64.StdEncoding.EncodeToString(samples)), false)
		must(t, err)
		if string(got) != string(samples) {
			t.Fatal("an append decoded to other samples")
		}
		all = append(all, samples...)
		in.start = max(in.start, in.end-int64(dice.IntN(50_000)))
		in.prune(false)
		var kept []byte
		for _, frame := range in.frames(in.start, in.end) {
			if len(frame.PCM) > contract.MaxVoiceFrame*sampleBytes {
				t.Fatalf("a frame of %d bytes", len(frame.PCM))
			}
			kept = append(kept, frame.PCM...)
		}
		if string(kept) != string(all[in.start*sampleBytes:]) {
			t.Fatalf("%d bytes from %d on differ from the samples sent", len(kept), in.start)
		}
	}
}

// An answer is interrupted at a random moment, with or without lost workers. The text recorded as
// played is then a prefix of the answer, and needs no more audio than was sent.
func TestHeardTextMatchesTheSentAudio(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		dice := rand.New(rand.NewPCG(seed, 7))
		r := newTestEnv(t, "")
		r.do(`client {"type":"response.create","response":{"instructions":"x"}}`)
		r.do("begun item_1 run_01")
		var names int
		var text strings.Builder
		var sent, heard int64
		w := (*worker)(nil)
		for range dice.IntN(60) {
			e := Effects{}
			switch {
			case w == nil || dice.IntN(12) == 0:
				out := r.c.Resume()
				w = newWorker(t, &names, out.Open)
				e.Commands = out.Commands
			case len(w.out) == 0 || dice.IntN(4) == 0:
				more := []string{"So, what? ", "Grüße. ", "And ", "then some. "}[dice.IntN(4)]
				text.WriteString(more)
				data, err := domain.DeltaData(more)
				must(t, err)
				e = r.c.Run(r.now, "item_1", domain.Event{Type: domain.EventMessageDelta, Data: data})
			default:
				next := w.out[0]
				w.out = w.out[1:]
				if next.audio != nil {
					e = r.c.Audio(r.now, *next.audio)
				} else {
					e = r.c.Report(r.now, *next.report)
				}
			}
			for _, command := range e.Commands {
				w.command(command)
			}
			for _, event := range e.Events {
				sent += event.Samples
				r.c.Sent(r.now, "item_1", event.Samples)
			}
			r.now = r.now.Add(time.Duration(dice.IntN(1000)) * time.Microsecond)
		}
		e := r.c.Client(r.now, []byte(`{"type":"response.cancel"}`))
		if len(e.End) != 1 || e.End[0].Heard == nil || !e.End[0].Cancel {
			t.Fatalf("seed %d: %+v", seed, e.End)
		}
		got := e.End[0].Heard
		heard = got.AudioMS * perMS
		if heard > sent || !strings.HasPrefix(strings.TrimSpace(text.String()), got.Text) || heard == 0 && got.Text != "" {
			t.Errorf("seed %d: %q in %d of %d samples, of %q", seed, got.Text, heard, sent, text.String())
		}
		if said := int64(len(got.Text)) * perByte; said > heard+10*perMS { // the played words are estimated, so the text may be a bit longer
			t.Errorf("seed %d: %q was heard in %d samples", seed, got.Text, heard)
		}
	}
}
