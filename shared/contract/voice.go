package contract

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Voice on the bus. An ingress opens a line with one of the voice workers, and both send frames over it: audio, and what one
// has the other do or know. A line holds nothing that the ingress does not hold too: when its worker is lost, the
// ingress opens it again with another, from where it stood.
//
//	voice.open                  request, queue group "voice": body VoiceOpen, capability VoiceClaims
//	<worker's inbox>.<line>     frames to the worker
//	<ingress's inbox>.<line>    frames to the ingress
//
// Each message has its sender's subject to reply to. What has a header is no frame: its stage says how the opening went, or
// StageEnded. A frame follows its number on the line, 4 bytes; without a frame behind it, the number says that its sender is there.
const (
	KindVoice = "voice" // of the capability

	SubjectVoiceOpen = "voice.open"
	VoiceGroup       = "voice"

	// StageEnded says that whoever sends it does not have the line, or no longer.
	StageEnded ToolStage = "ended"

	// VoiceRate is how many samples a second of audio has, everywhere on the bus: 16 bit, signed, little-endian, mono.
	VoiceRate = 24_000
	// MaxVoiceFrame is how many samples a frame has at most: a second.
	MaxVoiceFrame = VoiceRate
	// MaxVoiceSample is the last sample that can be named, after ten thousand years: what is reckoned from it stays in range.
	MaxVoiceSample = 1 << 53

	maxVoiceTime = 60_000 // ms of a detection's times: more than any ingress allows
)

// VoiceClaims is the capability of a line: whose speech it is.
type VoiceClaims struct {
	OrganizationID string    `json:"org"`
	Kind           string    `json:"kind"` // KindVoice
	Line           string    `json:"line"`
	Expires        time.Time `json:"expires"` // when it must have been opened
}

// VoiceOpen opens a line, or takes it up where a worker that was lost had it.
type VoiceOpen struct {
	Line string `json:"line"`
	// OrganizationID is whose speech it is, as the claims say.
	OrganizationID string      `json:"org"`
	Config         VoiceConfig `json:"config"`
	// Position is the first sample that the line will bring: they are counted from the connection's first.
	Position int64 `json:"position,omitempty"`
	// Speech is speech that was told of as started, and not as stopped.
	Speech *VoiceSpeech `json:"speech,omitempty"`
}

// Holds reports whether a line can be opened so: what is reckoned with is in range.
func (o VoiceOpen) Holds() bool {
	return areSamples(o.Position) && (o.Speech == nil || areSamples(o.Speech.From)) && o.Config.holds()
}

// VoiceSpeech is speech in the input: an item from a sample on.
type VoiceSpeech struct {
	Item string `json:"item"`
	From int64  `json:"from"` // sample, padding before the speech included
}

// VoiceConfig is how a line listens and speaks.
type VoiceConfig struct {
	Detection *VoiceDetection `json:"detection,omitempty"` // nil: turns end by command alone
	Language  string          `json:"language,omitempty"`  // that is spoken: ISO 639-1, or ""
	Prompt    string          `json:"prompt,omitempty"`    // words that the transcription may expect
	Voice     string          `json:"voice,omitempty"`     // "": the backend's own
	Speed     float64         `json:"speed,omitempty"`     // 0: 1
}

// VoiceDetection is how the worker finds where speech begins and ends.
type VoiceDetection struct {
	Threshold float64 `json:"threshold"` // 0 to 1: how clearly speech must stand out
	PrefixMS  int     `json:"prefixMs"`  // of audio before the speech that belong to it
	SilenceMS int     `json:"silenceMs"` // of silence that end it
}

func (c *VoiceConfig) holds() bool {
	if c == nil || c.Detection == nil {
		return true
	}
	d := c.Detection
	return d.Threshold >= 0 && d.Threshold <= 1 && areTimes(d.PrefixMS, d.SilenceMS)
}

func areTimes(times ...int) bool {
	return !slices.ContainsFunc(times, func(ms int) bool { return ms < 0 || ms > maxVoiceTime })
}

func areSamples(samples ...int64) bool {
	return !slices.ContainsFunc(samples, func(n int64) bool { return n < 0 || n > MaxVoiceSample })
}

// What an ingress has a worker do.
const (
	VoiceConfigure = "configure" // Config, from here on
	VoiceCommit    = "commit"    // Item: transcribe the samples From to To, which were all sent; listening begins anew behind them
	VoiceClear     = "clear"     // forget the input before the sample From
	VoiceSay       = "say"       // Answer, Text from the byte Start on, Last; Skip samples of what it becomes were had
	VoiceStop      = "stop"      // Answer: say no more of it
	VoiceClose     = "close"     // the line has ended
)

// VoiceCommand is what an ingress has a worker do.
type VoiceCommand struct {
	Type   string       `json:"type"`
	Config *VoiceConfig `json:"config,omitempty"`
	Item   string       `json:"item,omitempty"`
	From   int64        `json:"from,omitempty"`
	To     int64        `json:"to,omitempty"`
	Answer string       `json:"answer,omitempty"`
	Text   string       `json:"text,omitempty"`  // more of the answer, as the model wrote it: Markdown
	Start  int          `json:"start,omitempty"` // byte of the answer that Text begins with
	Last   bool         `json:"last,omitempty"`  // the answer ends with Text
	Skip   int64        `json:"skip,omitempty"`  // samples: of the first say of a line that was taken up
}

func (c VoiceCommand) holds() bool {
	return areSamples(c.From, c.To, c.Skip, int64(c.Start)) && c.Config.holds()
}

// What a worker tells an ingress.
const (
	VoiceAlive      = "alive"      // every 500 ms, and for every 500 ms of audio that was listened to: Heard, Needs
	VoiceStarted    = "started"    // Item: speech began at the sample From
	VoiceStopped    = "stopped"    // Item: speech from From to To; it is being transcribed
	VoiceTranscript = "transcript" // Item, Text; empty: nothing was understood
	VoiceSegment    = "segment"    // Answer: the bytes Start to End were said, Samples in all; sent behind their audio
	VoiceSaid       = "said"       // Answer: all was
	VoiceFailed     = "failed"     // Item or Answer, or neither: Config; Failure
	VoiceLeaving    = "leaving"    // the worker stops: open the line elsewhere
)

// VoiceReport is what a worker tells an ingress.
type VoiceReport struct {
	Type    string        `json:"type"`
	Heard   int64         `json:"heard,omitempty"` // sample up to which was listened
	Needs   int64         `json:"needs,omitempty"` // sample before which nothing is needed any more, to take the line up
	Item    string        `json:"item,omitempty"`
	From    int64         `json:"from,omitempty"`
	To      int64         `json:"to,omitempty"`
	Text    string        `json:"text,omitempty"`
	Answer  string        `json:"answer,omitempty"`
	Start   int           `json:"start,omitempty"`
	End     int           `json:"end,omitempty"`
	Samples int64         `json:"samples,omitempty"`
	Failure *VoiceFailure `json:"failure,omitempty"`
}

func (r VoiceReport) holds() bool {
	return areSamples(r.Heard, r.Needs, r.From, r.To, r.Samples, int64(r.Start), int64(r.End))
}

// VoiceFailure is what went wrong; Message is made for the caller.
type VoiceFailure struct {
	Code    string `json:"code"`            // transcription_failed, speech_failed, unknown_voice, unknown_language, overloaded
	Param   string `json:"param,omitempty"` // of the session: voice, language
	Message string `json:"message"`
}

// Kinds of frames: a frame's first byte.
const (
	frameAudio   = 'a'
	frameControl = 'c'
)

// VoiceAudio is audio on a line. To the worker it has no Answer.
type VoiceAudio struct {
	At     int64  // its first sample: of the connection's input, or of the answer's output
	Answer string // that is spoken
	Start  int    // the segment's bytes of the answer
	End    int
	PCM    []byte // samples
}

const audioHead = 1 + 8 + 4 + 4 + 1

var (
	errFrame = errors.New("reading voice frame: invalid frame")
	errAudio = errors.New("the audio cannot be sent")
)

// AppendVoiceAudio writes an audio frame to b. What ParseVoiceFrame would not take is an error.
func AppendVoiceAudio(b []byte, audio VoiceAudio) ([]byte, error) {
	if len(audio.Answer) > math.MaxUint8 || !audio.holds() || audio.Start < 0 || audio.End > math.MaxUint32 {
		return b, fmt.Errorf("writing voice frame: %w", errAudio)
	}
	b = append(b, frameAudio)
	b = binary.BigEndian.AppendUint64(b, uint64(audio.At))
	b = binary.BigEndian.AppendUint32(b, uint32(audio.Start))
	b = binary.BigEndian.AppendUint32(b, uint32(audio.End))
	b = append(b, byte(len(audio.Answer)))
	b = append(b, audio.Answer...)
	return append(b, audio.PCM...), nil
}

// holds reports whether audio can be what it says.
func (a VoiceAudio) holds() bool {
	return areSamples(a.At) && a.Start <= a.End && len(a.PCM)%2 == 0 && len(a.PCM) <= 2*MaxVoiceFrame
}

// AppendVoiceControl writes a frame with a command or a report to b.
func AppendVoiceControl[T VoiceCommand | VoiceReport](b []byte, control T) ([]byte, error) {
	raw, err := json.Marshal(control)
	if err != nil {
		return b, fmt.Errorf("writing voice frame: %w", err)
	}
	return append(append(b, frameControl), raw...), nil
}

// VoiceFrame is what came over a line: Audio or Control.
type VoiceFrame[T VoiceCommand | VoiceReport] struct {
	Audio   *VoiceAudio // its samples share the message's memory
	Control *T
}

// ParseVoiceFrame reads what AppendVoiceAudio and AppendVoiceControl write.
func ParseVoiceFrame[T VoiceCommand | VoiceReport](body []byte) (VoiceFrame[T], error) {
	if len(body) == 0 {
		return VoiceFrame[T]{}, errFrame
	}
	switch body[0] {
	case frameAudio:
		audio, err := parseAudio(body)
		return VoiceFrame[T]{Audio: audio}, err
	case frameControl:
		control := new(T)
		if err := json.Unmarshal(body[1:], control); err != nil {
			return VoiceFrame[T]{}, fmt.Errorf("reading voice frame: %w", err)
		}
		if bounded, ok := any(*control).(interface{ holds() bool }); !ok || !bounded.holds() {
			return VoiceFrame[T]{}, errFrame
		}
		return VoiceFrame[T]{Control: control}, nil
	default:
		return VoiceFrame[T]{}, errFrame
	}
}

func parseAudio(body []byte) (*VoiceAudio, error) {
	if len(body) < audioHead || len(body) < audioHead+int(body[audioHead-1]) {
		return nil, errFrame
	}
	named := audioHead + int(body[audioHead-1])
	at := binary.BigEndian.Uint64(body[1:])
	audio := &VoiceAudio{
		At: int64(at), Answer: string(body[audioHead:named]), PCM: body[named:],
		Start: int(binary.BigEndian.Uint32(body[9:])), End: int(binary.BigEndian.Uint32(body[13:])),
	}
	if !audio.holds() {
		return nil, errFrame
	}
	return audio, nil
}
