package httpapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"parley/ingress/internal/httpapi/voice"
	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/testkit"
)

const (
	spokenSamples = contract.VoiceRate / 2 // number of audio samples of a spoken sentence in these tests
	frameSamples  = contract.VoiceRate / 10
)

// recite is a voice worker for which the bytes of audio are text. It transcribes audio to the text
// in it, and speaks the first sentence of an answer as audio that contains the sentence.
func recite(_ context.Context, _ []byte, line *bus.WorkerVoiceSession) {
	var heard bytes.Buffer
	said := map[string]bool{}
	for f := range line.Frames() {
		switch c := f.Control; {
		case f.Audio != nil:
			heard.Write(f.Audio.PCM)
			end := f.Audio.At + int64(len(f.Audio.PCM)/2)
			_ = line.Report(contract.VoiceReport{Type: contract.VoiceAlive, Heard: end})
		case c.Type == contract.VoiceCommit:
			_ = line.Report(contract.VoiceReport{Type: contract.VoiceTranscript, Item: c.Item, Text: strings.Trim(heard.String(), "\x00")})
			heard.Reset()
		case c.Type == contract.VoiceSay && !said[c.Answer] && strings.Contains(c.Text, "."):
			said[c.Answer] = true
			spell(line, c)
		}
	}
}

func spell(line *bus.WorkerVoiceSession, c *contract.VoiceCommand) {
	end := c.Start + strings.IndexByte(c.Text, '.') + 1
	frame := make([]byte, 2*frameSamples)
	copy(frame, c.Text)
	for at := int64(0); at < spokenSamples; at += frameSamples {
		_ = line.Audio(contract.VoiceAudio{At: at, Answer: c.Answer, Start: c.Start, End: end, PCM: frame})
	}
	_ = line.Report(contract.VoiceReport{Type: contract.VoiceSegment, Answer: c.Answer, Start: c.Start, End: end, Samples: spokenSamples})
}

// busRecorder records every message on the bus of the test.
type busRecorder struct {
	mu   sync.Mutex
	seen []*nats.Msg
}

func (a *runEnv) tap() *busRecorder {
	a.t.Helper()
	nc := testkit.NATSConn(a.t, a.nats)
	tap := &busRecorder{}
	_, err := nc.Subscribe(">", func(m *nats.Msg) {
		tap.mu.Lock()
		defer tap.mu.Unlock()
		tap.seen = append(tap.seen, m)
	})
	must(a.t, err)
	must(a.t, nc.Flush())
	return tap
}

// ends returns the bus subjects on which the ingress and the workers receive the messages of an
// organization's voice sessions.
func (p *busRecorder) ends(org string) map[string]bool {
	ends := map[string]bool{}
	for _, m := range p.seen {
		claims, _, _ := strings.Cut(m.Header.Get(contract.HeaderCapability), ".")
		raw, _ := base64.RawURLEncoding.DecodeString(claims)
		var of contract.VoiceClaims
		if json.Unmarshal(raw, &of) == nil && of.Kind == contract.KindVoice && of.OrganizationID == org {
			ends[m.Reply] = true
		}
	}
	for _, m := range p.seen { // messages to these subjects contain, as their Reply, the subject of the worker
		if ends[m.Subject] && m.Reply != "" {
			ends[m.Reply] = true
		}
	}
	return ends
}

// check fails the test if a recorded message outside of an organization's own voice sessions
// contains the organization's word.
func (p *busRecorder) check(t *testing.T, word, org string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	ends, carried := p.ends(org), 0
	for _, m := range p.seen {
		switch held := bytes.Contains(m.Data, []byte(word)); {
		case held && ends[m.Subject] && ends[m.Reply]:
			carried++
		case held && (m.Subject != contract.SubjectVoiceOpen || !ends[m.Reply]): // the message that opens a session names the voice
			t.Errorf("%s on the bus, at %s from %s: %.300q", word, m.Subject, m.Reply, m.Data)
		}
	}
	if carried < 10 {
		t.Errorf("only %d messages of %s's voice sessions were recorded", carried, word)
	}
}

// recordingConn is a voice connection that records all received events, with audio as text; see
// recite.
type recordingConn struct {
	*voiceConn
	seen bytes.Buffer
}

// turn reads an answer up to the end of its first sentence and reports this sentence as played. It
// returns the run of the answer.
func (k *recordingConn) turn() (runID string) {
	k.Helper()
	sound := map[string]int{} // number of samples by item; there may also be samples of the previous answer
	for {
		event, code := k.read()
		if event == nil {
			k.Fatalf("the connection ended with %d", code)
		}
		raw, err := json.Marshal(event)
		must(k, err)
		k.seen.Write(raw)
		switch event["type"] {
		case "error":
			k.Fatalf("%s", raw)
		case "response.output_audio.delta":
			pcm, err := base64.StdEncoding.DecodeString(event["delta"].(string))
			must(k, err)
			k.seen.Write(pcm)
			item, _ := event["item_id"].(string)
			if sound[item] += len(pcm) / 2; sound[item] == spokenSamples {
				k.send(`{"type":"conversation.item.truncate","item_id":"` + item + `","content_index":0,"audio_end_ms":500}`)
			}
		case "response.done":
			response := event["response"].(map[string]any)
			if response["status"] != "cancelled" {
				k.Fatalf("%s", raw)
			}
			runID, _ = response["metadata"].(map[string]any)["run_id"].(string)
			return runID
		}
	}
}

// Other organizations cannot see the content of an organization's voice sessions, even if they have
// simultaneous sessions of the same name at the same worker. The log does not contain the content.
// On the bus, only messages of the organization's own sessions contain the content.
func TestCanariesThroughVoice(t *testing.T) {
	t.Parallel()
	b := newVoiceEnvFor(t, manyRequests, recite)
	b.startWorker(func(runID, message string) { b.end(runID, answers(message+" heard. "+message+" unheard.")) })
	tap := b.tap()
	orgs := []*testOrg{b.newTestOrg(canary("a")), b.newTestOrg(canary("b"))}
	agents, talks, runs := make([]string, 2), make([]*recordingConn, 2), make([][]string, 2)
	for n, h := range orgs {
		agents[n] = b.newVoiceAgent(h)
		talks[n] = &recordingConn{voiceConn: b.open(t, "?session_id=shared&model="+agents[n], h.key)}
		talks[n].send(`{"type":"session.update","session":{"type":"realtime","audio":{"input":{"turn_detection":null}}}}`)
	}
	for range 2 {
		for n, h := range orgs {
			sound := make([]byte, 4*frameSamples)
			copy(sound, h.word+" spoken")
			talks[n].send(`{"type":"input_audio_buffer.append","audio":"`+base64.StdEncoding.EncodeToString(sound)+`"}`,
				`{"type":"input_audio_buffer.commit"}`, `{"type":"response.create"}`)
		}
		for n := range orgs {
			runs[n] = append(runs[n], talks[n].turn())
		}
		for n, h := range orgs {
			talks[n].says(h.word + " typed")
		}
		for n := range orgs {
			runs[n] = append(runs[n], talks[n].turn())
		}
	}
	for n, h := range orgs {
		other := orgs[1-n]
		seen := talks[n].seen.String() + b.awaitStoredTexts(h, agents[n], runs[n]) + b.tryAll(h, agents[1-n], runs[1-n])
		for _, what := range []string{" spoken", " spoken heard.", " typed", " typed heard."} {
			if !strings.Contains(seen, h.word+what) {
				t.Errorf("%s%s does not exist, so the test shows nothing", h.word, what)
			}
		}
		if strings.Contains(seen, other.word) {
			t.Errorf("a canary of %s: %s", other.word, around(seen, other.word))
		}
	}
	for _, k := range talks {
		must(t, k.socket.CloseNow())
	}
	eventually(t, "both connections are logged", func() bool { return strings.Count(b.log.String(), `"message":"voice connection"`) == 2 })
	for _, h := range orgs {
		b.logsClean(h.word)
		tap.check(t, h.word, h.org)
	}
}

// awaitStoredTexts waits until the playback positions of an organization's turns are stored. It
// returns the stored texts of the turns.
func (b *voiceEnv) awaitStoredTexts(h *testOrg, agent string, runs []string) string {
	b.t.Helper()
	path := "/api/sessions?id=shared&agentId=" + agent
	eventually(b.t, "what was heard is kept", func() bool {
		return bytes.Count(b.ok("GET", path, "", h.key).body, []byte(`"interrupted":true`)) == len(runs)
	})
	kept := string(b.ok("GET", path, "", h.key).body)
	for _, runID := range runs {
		kept += string(b.ok("GET", "/api/runs?id="+runID, "", h.key).body)
	}
	return kept
}

// tryAll requests the turns of another organization and returns all responses.
func (b *voiceEnv) tryAll(h *testOrg, agent string, runs []string) string {
	b.t.Helper()
	var shown strings.Builder
	try := func(method, path, body string, headers ...string) {
		for _, credential := range []string{h.key, h.ownerKey} {
			got := b.from(method, path, body, append(headers, credential, h.header)...)
			if got.status >= 500 {
				b.t.Errorf("%s %s: %d %s", method, path, got.status, got.body)
			}
			must(b.t, got.header.Write(&shown))
			shown.Write(got.body)
		}
	}
	try("GET", "/api/sessions", "")
	try("GET", "/api/runs", "")
	try("GET", "/api/sessions?id=shared&agentId="+agent, "")
	try("GET", voice.RealtimePath+"?session_id=shared&model="+agent, "", upgrades...)
	try("POST", voice.RealtimePath+"/client_secrets", `{"session":{"type":"realtime","model":"`+agent+`"}}`)
	for _, runID := range runs {
		try("GET", "/api/runs?id="+runID, "")
		if b.store.Sessions.SavePlayback(b.t.Context(), h.org, runID, domain.Playback{Text: "stolen"}) == nil {
			b.t.Errorf("another organization changed the stored playback of %s", runID)
		}
	}
	return shown.String()
}
