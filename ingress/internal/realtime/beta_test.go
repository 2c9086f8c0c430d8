package realtime

import (
	"encoding/json"
	"strings"
	"testing"
)

// A client may send back a session object as it received it. The session object may contain all
// fields that the protocol defines.
func TestASessionCanBeSentBack(t *testing.T) {
	t.Parallel()
	for _, given := range []string{
		``,
		`{"output_modalities":["text"],"instructions":"Be kind.","audio":{"input":{"turn_detection":null}}}`,
		`{"audio":{"input":{"turn_detection":{"type":"semantic_vad"},"transcription":{"language":"en"}},"output":{"voice":"echo","speed":1.5}}}`,
	} {
		r := newTestEnv(t, given)
		reported := r.reported(r.c.Open(""), "session.created")
		sent, err := json.Marshal(map[string]any{"type": "session.update", "session": reported})
		must(t, err)
		again := r.reported(r.c.Client(r.now, sent), "session.updated")
		if string(again) != string(reported) {
			t.Errorf("%s became %s", reported, again)
		}
	}
	r := newTestEnv(t, "")
	r.reported(r.c.Client(r.now, []byte(`{"type":"session.update","session":{"type":"realtime","object":"realtime.session","id":"sess_1",
		"expires_at":1,"include":null,"instructions":"x","max_output_tokens":"inf","model":"ag_1","output_modalities":["audio"],
		"prompt":null,"tool_choice":"auto","tools":[],"tracing":null,"truncation":"auto","audio":{
		"input":{"format":{"type":"audio/pcm","rate":24000},"noise_reduction":null,"transcription":null,"turn_detection":{
		"type":"server_vad","create_response":true,"idle_timeout_ms":null,"interrupt_response":true,"prefix_padding_ms":300,
		"silence_duration_ms":200,"threshold":0.5}},
		"output":{"format":{"type":"audio/pcm","rate":24000},"speed":1,"voice":"marin"}}}}`)), "session.updated")
}

// reported returns the session object of the event in e. It fails the test unless e contains
// exactly one event, and this event has the given type.
func (r *testEnv) reported(e Effects, kind string) json.RawMessage {
	r.tb.Helper()
	var event struct {
		Type    string          `json:"type"`
		Session json.RawMessage `json:"session"`
	}
	if len(e.Events) != 1 || json.Unmarshal(e.Events[0].Body, &event) != nil || event.Type != kind {
		r.tb.Fatalf("got no %s, but %+v", kind, e.Events)
	}
	return event.Session
}

// A field that only the beta protocol has is rejected. The error names the field of the beta
// protocol and the corresponding field of the current protocol.
func TestFieldsOfTheBetaAreRefused(t *testing.T) {
	t.Parallel()
	for at, fields := range map[string][]moved{"session": betaSession, "response": betaResponse} {
		for _, f := range fields {
			r := newTestEnv(t, "")
			kind := map[string]string{"session": "session.update", "response": "response.create"}[at]
			r.do(`client {"type":"` + kind + `","` + at + `":{"` + f.from + `":"x"}}`)
			line := r.lastLine()
			if !strings.Contains(line, `error.param="`+at+`.`+f.from+`"`) || !strings.Contains(line, "use "+at+"."+f.to) {
				t.Errorf("%s.%s: %s", at, f.from, line)
			}
		}
	}
}
