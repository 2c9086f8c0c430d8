package contract_test

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"

	"parley/shared/contract"
)

func TestVoiceAudioIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	for name, audio := range map[string]contract.VoiceAudio{
		"input":           {At: 480, PCM: []byte{1, 2, 3, 4}},
		"output":          {At: 9_000_000_000, Answer: "item_1", Start: 12, End: 80, PCM: []byte{0, 255}},
		"nothing":         {PCM: []byte{}},
		"the most":        {At: contract.MaxVoiceSample, PCM: make([]byte, 2*contract.MaxVoiceFrame)},
		"a long name":     {Answer: strings.Repeat("x", 255), PCM: []byte{}},
		"far in a text":   {Start: math.MaxUint32, End: math.MaxUint32, PCM: []byte{}},
		"an empty region": {Answer: "a", Start: 5, End: 5, PCM: []byte{}},
	} {
		frame, err := contract.AppendVoiceAudio([]byte("head"), audio)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := contract.ParseVoiceFrame[contract.VoiceReport](bytes.TrimPrefix(frame, []byte("head")))
		if err != nil || got.Control != nil || !reflect.DeepEqual(got.Audio, &audio) {
			t.Errorf("%s: read %+v, %v", name, got.Audio, err)
		}
	}
	for name, audio := range map[string]contract.VoiceAudio{
		"half a sample":          {PCM: []byte{1}},
		"more than a second":     {PCM: make([]byte, 2*contract.MaxVoiceFrame+2)},
		"before the first":       {At: -1},
		"beyond the last":        {At: contract.MaxVoiceSample + 1},
		"a name too long":        {Answer: strings.Repeat("x", 256)},
		"an end before a start":  {Start: 2, End: 1},
		"a start before all":     {Start: -1, End: 1},
		"an end beyond all ends": {End: math.MaxUint32 + 1},
	} {
		if frame, err := contract.AppendVoiceAudio([]byte("head"), audio); err == nil || string(frame) != "head" {
			t.Errorf("%s: written as %q, %v", name, frame[:min(len(frame), 40)], err)
		}
	}
}

func TestVoiceControlIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	command := contract.VoiceCommand{
		Type: contract.VoiceConfigure, Item: "item_1", From: 1, To: 2, Answer: "item_2", Text: "ä\n", Start: 3, Last: true, Skip: 4,
		Config: &contract.VoiceConfig{
			Detection: &contract.VoiceDetection{Threshold: 0.5, PrefixMS: 300, SilenceMS: 500}, Language: "en", Prompt: "p", Voice: "v", Speed: 1.5,
		},
	}
	frame, err := contract.AppendVoiceControl(nil, command)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := contract.ParseVoiceFrame[contract.VoiceCommand](frame); err != nil || got.Audio != nil || !reflect.DeepEqual(got.Control, &command) {
		t.Errorf("read %+v, %v", got.Control, err)
	}
	report := contract.VoiceReport{
		Type: contract.VoiceFailed, Heard: 1, Needs: 2, Item: "i", From: 3, To: 4, Text: "t", Answer: "a", Start: 5, End: 6, Samples: 7,
		Failure: &contract.VoiceFailure{Code: "unknown_voice", Param: "voice", Message: "m"},
	}
	if frame, err = contract.AppendVoiceControl(nil, report); err != nil {
		t.Fatal(err)
	}
	if got, err := contract.ParseVoiceFrame[contract.VoiceReport](frame); err != nil || got.Audio != nil || !reflect.DeepEqual(got.Control, &report) {
		t.Errorf("read %+v, %v", got.Control, err)
	}
	unwritable := contract.VoiceCommand{Config: &contract.VoiceConfig{Speed: math.NaN()}}
	if frame, err := contract.AppendVoiceControl([]byte("head"), unwritable); err == nil || string(frame) != "head" {
		t.Errorf("written as %q, %v", frame, err)
	}
}

func TestBrokenVoiceFramesAreErrors(t *testing.T) {
	t.Parallel()
	head := "\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x03"
	if got, err := contract.ParseVoiceFrame[contract.VoiceReport]([]byte("a" + head + "\x01xab")); err != nil || string(got.Audio.PCM) != "ab" {
		t.Fatalf("a good one: %+v, %v", got.Audio, err)
	}
	for name, body := range map[string]string{
		"empty":               "",
		"an unknown kind":     "b" + head + "\x00",
		"a head cut off":      "a" + head,
		"a name cut off":      "a" + head + "\x02x",
		"half a sample":       "a" + head + "\x01xabc",
		"before the first":    "a\xff" + head[1:] + "\x00",
		"beyond the last":     "a\x7f" + head[1:] + "\x00",
		"an end before":       "a" + head[:15] + "\x01\x00",
		"more than a second":  "a" + head + "\x00" + strings.Repeat("ab", contract.MaxVoiceFrame+1),
		"no JSON":             "c",
		"broken JSON":         "c{",
		"trailing JSON":       "c{}{}",
		"a field of no type":  `c{"type":1}`,
		"JSON that is a list": "c[]",
	} {
		if got, err := contract.ParseVoiceFrame[contract.VoiceReport]([]byte(body)); err == nil || got.Audio != nil || got.Control != nil {
			t.Errorf("%s was taken for %+v, %+v, %v", name, got.Audio, got.Control, err)
		}
	}
}

// Frames with numbers out of range are rejected, even if the session's capability is valid.
func TestVoiceNumbersAreBounded(t *testing.T) {
	t.Parallel()
	const limit, more = "9007199254740992", "9007199254740993"
	for body, ok := range map[string]bool{
		`{"type":"commit","from":0,"to":` + limit + `}`:  true,
		`{"type":"commit","to":` + more + `}`:            false,
		`{"type":"commit","from":-1}`:                    false,
		`{"type":"clear","from":9223372036854775807}`:    false,
		`{"type":"say","skip":-1}`:                       false,
		`{"type":"say","start":-1}`:                      false,
		`{"type":"configure","config":{"detection":{}}}`: true,
		`{"type":"configure","config":{"detection":{"threshold":1,"prefixMs":60000,"silenceMs":60000}}}`: true,
		`{"type":"configure","config":{"detection":{"threshold":1.1}}}`:                                  false,
		`{"type":"configure","config":{"detection":{"threshold":-0.1}}}`:                                 false,
		`{"type":"configure","config":{"detection":{"prefixMs":-1}}}`:                                    false,
		`{"type":"configure","config":{"detection":{"prefixMs":60001}}}`:                                 false,
		`{"type":"configure","config":{"detection":{"silenceMs":9223372036854775807}}}`:                  false,
	} {
		if _, err := contract.ParseVoiceFrame[contract.VoiceCommand]([]byte("c" + body)); (err == nil) != ok {
			t.Errorf("%s: %v", body, err)
		}
	}
	for body, ok := range map[string]bool{
		`{"type":"alive","heard":` + limit + `,"needs":0}`: true,
		`{"type":"alive","heard":` + more + `}`:            false,
		`{"type":"alive","needs":-1}`:                      false,
		`{"type":"started","from":-1}`:                     false,
		`{"type":"stopped","to":` + more + `}`:             false,
		`{"type":"segment","start":-1}`:                    false,
		`{"type":"segment","end":-1}`:                      false,
		`{"type":"segment","samples":` + more + `}`:        false,
	} {
		if _, err := contract.ParseVoiceFrame[contract.VoiceReport]([]byte("c" + body)); (err == nil) != ok {
			t.Errorf("%s: %v", body, err)
		}
	}
	for name, c := range map[string]struct {
		open contract.VoiceOpen
		ok   bool
	}{
		"nothing":         {contract.VoiceOpen{}, true},
		"the last sample": {contract.VoiceOpen{Position: contract.MaxVoiceSample, Speech: &contract.VoiceSpeech{From: 1}}, true},
		"beyond it":       {contract.VoiceOpen{Position: math.MaxInt64}, false},
		"before all":      {contract.VoiceOpen{Position: -1}, false},
		"speech beyond":   {contract.VoiceOpen{Speech: &contract.VoiceSpeech{From: math.MaxInt64}}, false},
		"speech before":   {contract.VoiceOpen{Speech: &contract.VoiceSpeech{From: -1}}, false},
		"a threshold":     {contract.VoiceOpen{Config: contract.VoiceConfig{Detection: &contract.VoiceDetection{Threshold: 2}}}, false},
		"a silence":       {contract.VoiceOpen{Config: contract.VoiceConfig{Detection: &contract.VoiceDetection{SilenceMS: -1}}}, false},
	} {
		if got := c.open.Holds(); got != c.ok {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func FuzzVoiceFrame(f *testing.F) {
	head := "a\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x03"
	for _, seed := range []string{head + "\x00", head + "\x01xab", head + "\x01xa", `c{"type":"say","text":"a","start":1}`, `c{"type":"alive","heard":2}`, "c", ""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		readAgain[contract.VoiceCommand](t, body)
		readAgain[contract.VoiceReport](t, body)
	})
}

// readAgain parses a frame. If the frame is valid, it encodes the frame and parses the result
// again.
func readAgain[T contract.VoiceCommand | contract.VoiceReport](t *testing.T, body []byte) {
	t.Helper()
	frame, err := contract.ParseVoiceFrame[T](body)
	if (err == nil) != ((frame.Audio == nil) != (frame.Control == nil)) {
		t.Fatalf("%q: audio %v, control %v, %v", body, frame.Audio, frame.Control, err)
	}
	if err != nil {
		return
	}
	var written []byte
	if frame.Audio != nil {
		written, err = contract.AppendVoiceAudio(nil, *frame.Audio)
		if !bytes.Equal(written, body) {
			t.Errorf("%q was written as %q", body, written)
		}
	} else {
		written, err = contract.AppendVoiceControl(nil, *frame.Control)
	}
	if err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	if again, err := contract.ParseVoiceFrame[T](written); err != nil || !reflect.DeepEqual(again, frame) {
		t.Errorf("%q became %+v, %v", body, again, err)
	}
}
