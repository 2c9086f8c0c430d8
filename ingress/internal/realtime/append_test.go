package realtime

import (
	"encoding/json"
	"testing"

	"parley/shared/contract"
)

// quickAppend accepts only messages that a general JSON decoder would parse to the same result.
func TestAppendsInAllForms(t *testing.T) {
	t.Parallel()
	for raw, quick := range map[string]bool{
		`{"type":"input_audio_buffer.append","audio":"AAAA"}`:                 true,
		` { "audio" : "AAAA" , "type" : "input_audio_buffer.append" } `:       true,
		"{\"type\":\"input_audio_buffer.append\",\n\t\"audio\":\"AAAA\"}\r\n": true,
		`{"event_id":"e","type":"input_audio_buffer.append","audio":"AAAA"}`:  true,
		`{"event_id":"é","type":"input_audio_buffer.append","audio":"AAAA"}`:  false,
		`{"type":"input_audio_buffer.append","audio":"AAAA","more":"x"}`:      false,
		`{"type":"input_audio_buffer.append","audio":"AAAA","audio":"BBBB"}`:  false,
		`{"type":"input_audio_buffer.append","audio":"AA\u0041A"}`:            false,
		`{"type":"input_audio_buffer.append","audio":"AAAA"}x`:                false,
		`{"type":"input_audio_buffer.append","audio":"AAAA",}`:                false,
		`{"type":"input_audio_buffer.append" "audio":"AAAA"}`:                 false,
		`{"type":"input_audio_buffer.append","audio":"AAAA"`:                  false,
		`{"type":"input_audio_buffer.append","audio":"AAAA`:                   false,
		`{"type":"input_audio_buffer.append","audio":null}`:                   false,
		`{"type":"input_audio_buffer.append"}`:                                false,
		`{"type":"input_audio_buffer.commit","audio":"AAAA"}`:                 false,
		`{,"type":"input_audio_buffer.append","audio":"AAAA"}`:                false,
		`{}`: false,
		``:   false,
	} {
		if _, encoded, ok := quickAppend([]byte(raw)); ok != quick || ok && string(encoded) != "AAAA" {
			t.Errorf("%s: %s, %v", raw, encoded, ok)
		}
	}
}

func FuzzQuickAppend(f *testing.F) {
	f.Add([]byte(`{"type":"input_audio_buffer.append","audio":"AAAA","event_id":"x"}`))
	f.Add([]byte(` {"audio" : "" ,"type":"input_audio_buffer.append"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		eventID, encoded, ok := quickAppend(raw)
		if !ok {
			return
		}
		for _, b := range raw {
			if b < ' ' || b > '~' {
				return // the base64 decoder rejects such texts later
			}
		}
		var event struct {
			Type    string `json:"type"`
			Audio   string `json:"audio"`
			EventID string `json:"event_id"`
		}
		err := json.Unmarshal(raw, &event)
		if err != nil || event.Type != appendType || event.Audio != string(encoded) || event.EventID != string(eventID) {
			t.Errorf("%s: %s %s, %+v %v", raw, encoded, eventID, event, err)
		}
	})
}

// Each append event causes one small allocation. In addition, many events share one larger block
// for their audio.
func TestAppendsAreCheap(t *testing.T) { //nolint:paralleltest // testing.AllocsPerRun also counts the allocations of parallel tests
	r := newTestEnv(t, "")
	raw := appended(20)
	got := testing.AllocsPerRun(500, func() {
		if e := r.c.Client(r.now, raw); len(e.Audio) != 1 {
			t.Fatal("no audio")
		}
		r.c.Report(r.now, contract.VoiceReport{Type: contract.VoiceAlive, Heard: r.c.input.end, Needs: r.c.input.end})
	})
	if got > 2 {
		t.Errorf("%v allocations an append", got)
	}
}

func BenchmarkAppend(b *testing.B) {
	for name, ms := range map[string]int{"20ms": 20, "100ms": 100} {
		b.Run(name, func(b *testing.B) {
			r := newTestEnv(b, "")
			raw := appended(ms)
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				e := r.c.Client(r.now, raw)
				if len(e.Audio) != 1 {
					b.Fatal("no audio")
				}
				r.c.Report(r.now, contract.VoiceReport{Type: contract.VoiceAlive, Heard: r.c.input.end, Needs: r.c.input.end})
			}
		})
	}
}

func BenchmarkAudio(b *testing.B) {
	r := newTestEnv(b, "")
	r.do(`client {"type":"response.create","response":{"instructions":"x"}}`)
	r.do("begun item_1 run_01")
	r.do(`delta item_1 "Something to say."`)
	frame := contract.VoiceAudio{Answer: "item_1", End: 17, PCM: make([]byte, 100*perMS*sampleBytes)}
	b.ReportAllocs()
	for b.Loop() {
		r.c.Audio(r.now, frame)
	}
}
