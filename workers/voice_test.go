package workers_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"parley/shared/bus"
	"parley/shared/config"
	"parley/shared/contract"
	"parley/shared/secrets"
	"parley/workers"
	"parley/workers/internal/speech/speechtest"
)

func openLine(t *testing.T, b *bus.Bus) *bus.VoiceSession {
	t.Helper()
	caller, err := b.NewVoiceCaller()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(caller.Close)
	signer, err := secrets.NewSigner(secretsKey)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(contract.VoiceOpen{Line: "line_1", OrganizationID: "org_1"})
	if err != nil {
		t.Fatal(err)
	}
	claims, err := json.Marshal(contract.VoiceClaims{
		OrganizationID: "org_1", Kind: contract.KindVoice, Line: "line_1", Expires: time.Now().Add(time.Minute).UTC(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	line, err := caller.Open(ctx, signer.Sign(claims, body), body)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(line.Close)
	return line
}

// report waits for a report of the given type. It also returns the audio that has arrived before
// the report.
func report(t *testing.T, line *bus.VoiceSession, kind string) (contract.VoiceReport, []byte) {
	t.Helper()
	var sound []byte
	for late := time.After(20 * time.Second); ; {
		select {
		case frame, ok := <-line.Frames():
			switch {
			case !ok:
				t.Fatalf("the line ended before %s", kind)
			case frame.Audio != nil:
				sound = append(sound, frame.Audio.PCM...)
			case frame.Control != nil && frame.Control.Type == contract.VoiceFailed && kind != contract.VoiceFailed:
				t.Fatalf("%+v", frame.Control.Failure)
			case frame.Control != nil && frame.Control.Type == kind:
				return *frame.Control, sound
			}
		case <-late:
			t.Fatalf("no %s", kind)
		}
	}
}

func send(t *testing.T, line *bus.VoiceSession, command contract.VoiceCommand) {
	t.Helper()
	if err := line.Send(command); err != nil {
		t.Fatal(err)
	}
}

// A session first synthesizes audio. It then receives the same audio as input and returns the
// transcript.
func TestTheRoleVoiceSpeaksAndListens(t *testing.T) {
	t.Parallel()
	service := speechtest.NewService(t)
	r := newTestEnvFor(t, config.Workers{Speech: config.Speech{AudioBaseURL: service.URL, AudioAPIKey: speechtest.Key, SpeechVoice: "sage"}}, workers.RoleVoice)
	can := r.work.Capabilities()
	if want := (workers.Capability{Name: "voice", State: "openai/gpt-4o-mini-tts, openai/gpt-4o-mini-transcribe", Ok: true}); len(can) != 1 || can[0] != want {
		t.Errorf("capabilities = %+v", can)
	}
	const words = "The answer is twelve."
	line := openLine(t, r.bus)
	send(t, line, contract.VoiceCommand{Type: contract.VoiceSay, Answer: "item_1", Text: words, Last: true})
	_, sound := report(t, line, contract.VoiceSaid)
	if err := line.Audio(0, sound); err != nil {
		t.Fatal(err)
	}
	send(t, line, contract.VoiceCommand{Type: contract.VoiceCommit, Item: "item_2", To: int64(len(sound) / 2)})
	if got, _ := report(t, line, contract.VoiceTranscript); got.Item != "item_2" || got.Text != words {
		t.Errorf("%+v", got)
	}
	asked := service.Requests()
	if len(asked) != 2 || asked[0].Fields["model"] != "gpt-4o-mini-tts" || asked[0].Fields["voice"] != "sage" || asked[1].Fields["model"] != "gpt-4o-mini-transcribe" {
		t.Errorf("the service received %+v", asked)
	}
}

// If only one of the two backends is available, the worker accepts sessions, and these sessions
// report the missing backend.
func TestTheRoleVoiceWithOneBackend(t *testing.T) {
	t.Parallel()
	service := speechtest.NewService(t)
	r := newTestEnvFor(t, config.Workers{Speech: config.Speech{AudioBaseURL: service.URL, TranscriptionModel: "off", VoiceConcurrency: 1}}, workers.RoleVoice)
	line := openLine(t, r.bus)
	if err := line.Audio(0, make([]byte, 9600)); err != nil {
		t.Fatal(err)
	}
	send(t, line, contract.VoiceCommand{Type: contract.VoiceCommit, Item: "item_1", To: 4800})
	got, _ := report(t, line, contract.VoiceFailed)
	if got.Item != "item_1" || got.Failure.Code != "transcription_failed" || got.Failure.Message != "Speech recognition is unavailable: TRANSCRIPTION_MODEL is off." {
		t.Errorf("%+v: %+v", got, got.Failure)
	}
}

// If both backends are disabled, the worker accepts no sessions, so that other workers receive
// them.
func TestTheRoleVoiceThatIsOff(t *testing.T) {
	t.Parallel()
	r := newTestEnvFor(t, config.Workers{Speech: config.Speech{TranscriptionModel: "off", SpeechModel: "off"}}, workers.RoleVoice, workers.RoleSweep)
	if can := r.work.Capabilities(); len(can) != 1 || can[0] != (workers.Capability{Name: "voice", State: "off"}) {
		t.Errorf("capabilities = %+v", can)
	}
	caller, err := r.bus.NewVoiceCaller()
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := caller.Open(ctx, "x", []byte("{}")); err == nil {
		t.Error("a line was opened")
	}
}
