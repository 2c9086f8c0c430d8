package realtime

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"parley/shared/contract"
)

const (
	blockSamples  = 240 // number of samples that are analyzed together
	silentBlocks  = 5   // number of consecutive silent blocks that end speech
	prefixSamples = 480
	perByte       = 7 // samples of speech per byte of text
	maxFrame      = 20
)

// worker is a deterministic voice worker. It transcribes each sequence of equal non-zero samples as
// one letter. The result does not depend on the position at which the worker starts.
type worker struct {
	tb       testing.TB
	names    *int // number of items that all workers together have detected
	config   contract.VoiceConfig
	position int64 // position of the first received sample
	heard    []int16
	at       int64 // end of the analyzed samples
	from     int64 // position at which the analysis began
	speech   *contract.VoiceSpeech
	silent   int
	out      []message

	answer string
	text   []byte
	start  int // offset of the next byte of the answer that must be spoken
	base   int // offset of the field text within the answer, in bytes
	last   bool
	skip   int64
	said   bool
}

// message is a message of a worker: either a report or audio.
type message struct {
	report *contract.VoiceReport
	audio  *contract.VoiceAudio
}

func newWorker(tb testing.TB, names *int, open contract.VoiceOpen) *worker {
	tb.Helper()
	w := &worker{tb: tb, names: names, config: open.Config, position: open.Position, at: open.Position, from: open.Position, speech: open.Speech}
	if open.Speech != nil {
		if open.Speech.From < open.Position {
			tb.Errorf("speech from %d on a line from %d", open.Speech.From, open.Position)
		}
		w.at, w.from = open.Speech.From, open.Speech.From
	}
	return w
}

func (w *worker) end() int64 { return w.position + int64(len(w.heard)) }

func (w *worker) hear(a contract.VoiceAudio) {
	if a.At != w.end() {
		w.tb.Errorf("audio at %d, want %d", a.At, w.end())
	}
	for i := 0; i < len(a.PCM); i += sampleBytes {
		w.heard = append(w.heard, int16(binary.LittleEndian.Uint16(a.PCM[i:])))
	}
	w.listen()
}

// listen detects speech in the new samples.
func (w *worker) listen() {
	for ; w.config.Detection != nil && w.at+blockSamples <= w.end(); w.at += blockSamples {
		loud := w.words(w.at, w.at+blockSamples) != ""
		switch {
		case w.speech == nil && loud:
			*w.names++
			w.speech = &contract.VoiceSpeech{Item: fmt.Sprintf("found_%d", *w.names), From: max(w.from, w.at-prefixSamples)}
			w.silent = 0
			w.emit(contract.VoiceReport{Type: contract.VoiceStarted, Item: w.speech.Item, From: w.speech.From})
		case w.speech == nil:
		case loud:
			w.silent = 0
		default:
			w.silent++
			if w.silent == silentBlocks {
				to := w.at - (silentBlocks-1)*blockSamples
				w.emit(contract.VoiceReport{Type: contract.VoiceStopped, Item: w.speech.Item, From: w.speech.From, To: to})
				w.emit(contract.VoiceReport{Type: contract.VoiceTranscript, Item: w.speech.Item, Text: w.words(w.speech.From, to)})
				w.speech, w.from = nil, to
			}
		}
	}
	needs := max(w.from, w.at-prefixSamples)
	if w.speech != nil {
		needs = w.speech.From
	}
	if w.config.Detection == nil {
		w.at, needs = w.end(), w.from
	}
	w.emit(contract.VoiceReport{Type: contract.VoiceAlive, Heard: w.at, Needs: needs})
}

// words returns the transcript of the samples.
func (w *worker) words(from, to int64) string {
	if from < w.position || to > w.end() {
		w.tb.Fatalf("samples %d to %d of %d to %d", from, to, w.position, w.end())
	}
	var out strings.Builder
	for _, sample := range w.heard[from-w.position : to-w.position] {
		if letter := string(rune(sample)); sample != 0 && !strings.HasSuffix(out.String(), letter) {
			out.WriteString(letter)
		}
	}
	return out.String()
}

func (w *worker) emit(r contract.VoiceReport) { w.out = append(w.out, message{report: &r}) }

func (w *worker) command(command contract.VoiceCommand) {
	switch command.Type {
	case contract.VoiceConfigure:
		w.config = *command.Config
	case contract.VoiceCommit:
		w.emit(contract.VoiceReport{Type: contract.VoiceTranscript, Item: command.Item, Text: w.words(command.From, command.To)})
		w.again(command.To)
	case contract.VoiceClear:
		w.again(command.From)
	case contract.VoiceSay:
		w.say(command)
	case contract.VoiceStop:
		w.answer, w.text = "", nil
	}
}

// again restarts the detection of speech at the given position.
func (w *worker) again(at int64) {
	if at > w.from {
		w.at, w.from, w.speech, w.silent = at, at, nil, 0
	}
	w.listen()
}

func (w *worker) say(command contract.VoiceCommand) {
	if w.answer != command.Answer {
		w.answer, w.text, w.base, w.start, w.last, w.said = command.Answer, nil, command.Start, command.Start, false, false
		w.skip = command.Skip
	} else if command.Start != w.base+len(w.text) {
		w.tb.Errorf("say at %d, want %d", command.Start, w.base+len(w.text))
	}
	w.text = append(w.text, command.Text...)
	w.last = w.last || command.Last
	w.speak()
}

// speak speaks all sentences that have arrived completely.
func (w *worker) speak() {
	for {
		rest := w.text[w.start-w.base:]
		n := strings.Index(string(rest), ". ") + 2
		if n < 2 {
			n = len(rest)
			if !w.last || n == 0 {
				break
			}
		}
		var samples []byte
		for _, b := range rest[:n] {
			for range perByte {
				samples = append(samples, b, 0)
			}
		}
		samples = samples[w.skip*sampleBytes:]
		w.skip = 0
		for len(samples) > 0 {
			limit := min(len(samples), maxFrame*sampleBytes)
			w.out = append(w.out, message{audio: &contract.VoiceAudio{
				Answer: w.answer, Start: w.start, End: w.start + n, PCM: samples[:limit],
			}})
			samples = samples[limit:]
		}
		w.emit(contract.VoiceReport{Type: contract.VoiceSegment, Answer: w.answer, Start: w.start, End: w.start + n, Samples: int64(n * perByte)})
		w.start += n
	}
	if w.last && !w.said && w.start == w.base+len(w.text) {
		w.said = true
		w.emit(contract.VoiceReport{Type: contract.VoiceSaid, Answer: w.answer})
	}
}
