package realtime

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/shared/contract"
)

// FuzzClient checks that the conversation sends only valid events, whatever message the client
// sends, and that it remains usable.
func FuzzClient(f *testing.F) {
	files, err := filepath.Glob("testdata/scenes/*.txt")
	must(f, err)
	for _, file := range files {
		scene, err := os.ReadFile(file)
		must(f, err)
		var sent []string
		for line := range strings.Lines(string(scene)) {
			if event, is := strings.CutPrefix(strings.TrimSpace(line), "> client "); is {
				sent = append(sent, event)
			}
		}
		if len(sent) > 0 && len(sent) < 15 {
			f.Add([]byte(strings.Join(sent, "\n")))
		}
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		r := newTestEnv(t, "")
		for raw := range bytes.SplitSeq(script, []byte("\n")) {
			e := r.c.Client(r.now, raw)
			silent := len(e.Events)+len(e.Audio)+len(e.Commands)+len(e.Begin) == 0
			if silent && !waits(raw) && !bytes.Contains(raw, []byte("append")) {
				t.Errorf("no answer to %s", raw)
			}
			r.take(e)
			for _, turn := range e.Begin {
				if strings.TrimSpace(turn.Message) == "" || len([]rune(turn.Message)) > maxMessage {
					t.Errorf("a turn of %.50q", turn.Message)
				}
				r.do("begun " + turn.Answer + " run_01")
				r.do("delta " + turn.Answer + ` "So. Be it."`)
				r.do("speech " + turn.Answer + " 0 4 100")
			}
		}
		r.do("resume")
		r.take(r.c.Report(r.now, contract.VoiceReport{Type: contract.VoiceStarted, Item: "fuzz_found", From: r.c.input.end}))
		r.do("hear 100")
		r.do("gone")
	})
}

// waits reports whether an event from the client may have no immediate effect. A response.create
// may wait for transcripts, and a response.cancel may arrive before the run of its response.
func waits(raw []byte) bool {
	var event struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(raw, &event) == nil && (event.Type == "response.create" || event.Type == "response.cancel")
}
