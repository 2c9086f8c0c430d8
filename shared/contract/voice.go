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

// Voice protocol on the bus. An ingress opens a voice session (line) with one of the voice
// workers. Both send frames: audio, commands and reports. The ingress has all state of a session;
// if its worker is lost, it reopens the session with another worker at the same position.
//
//	voice.open                  request, queue group "voice": body VoiceOpen, capability VoiceClaims
//	<worker's inbox>.<line>     frames to the worker
//	<ingress's inbox>.<line>    frames to the ingress
//
// The reply subject of each message is the sender's subject. A message with a header is not a
// frame: its stage is the reply to an opening, or StageEnded. The body of StageAccepted is the name of the
// worker's transcription model. A frame is preceded by its 4-byte
// number; a number alone is a ping.
const (
	KindVoice = "voice" // of the capability

	SubjectVoiceOpen = "voice.open"
	VoiceGroup       = "voice"

	// StageEnded means that the sender has no such session, or no longer has it.
	StageEnded ToolStage = "ended"

	// VoiceRate is the number of audio samples per second on the bus: 16 bit, signed,
	// little-endian, mono.
	VoiceRate = 24_000
	// MaxVoiceFrame is the maximum number of samples in a frame: one second.
	MaxVoiceFrame = VoiceRate
	// MaxVoiceSample is the highest permitted sample number. The limit prevents overflow in
	// calculations. A connection would reach it only after ten thousand years.
	MaxVoiceSample = 1 << 53

	maxVoiceTime = 60_000 // maximum duration in detection settings, in ms; every ingress has a lower limit
)

// VoiceClaims contains the verified data of the capability for a voice session.
type VoiceClaims struct {
	OrganizationID string    `json:"org"`
	Kind           string    `json:"kind"` // KindVoice
	Line           string    `json:"line"`
	Expires        time.Time `json:"expires"` // the session must be opened before then
}

// VoiceOpen opens a session, or resumes a session whose worker was lost.
type VoiceOpen struct {
	Line string `json:"line"`
	// OrganizationID is the organization of the session, as in the claims.
	OrganizationID string      `json:"org"`
	Config         VoiceConfig `json:"config"`
	// Position is the number of the first sample that the session will send, counted from the
	// start of the connection.
	Position int64 `json:"position,omitempty"`
	// Speech is the speech in progress: its start has been reported, but not its end. It is nil if
	// there is none.
	Speech *VoiceSpeech `json:"speech,omitempty"`
}

// Holds reports whether all values are in range.
func (o VoiceOpen) Holds() bool {
	return areSamples(o.Position) && (o.Speech == nil || areSamples(o.Speech.From)) && o.Config.inRange()
}

// VoiceSpeech is speech in the input: an item that begins at a sample.
type VoiceSpeech struct {
	Item string `json:"item"`
	From int64  `json:"from"` // first sample, including padding before the speech
}

// VoiceConfig configures speech recognition and synthesis of a session.
type VoiceConfig struct {
	Detection *VoiceDetection `json:"detection,omitempty"` // nil: turns end only by command
	Language  string          `json:"language,omitempty"`  // spoken language: ISO 639-1, or ""
	Prompt    string          `json:"prompt,omitempty"`    // words that the transcription can expect
	Voice     string          `json:"voice,omitempty"`     // "": the backend's default
	Speed     float64         `json:"speed,omitempty"`     // 0: 1
}

// VoiceDetection configures how the worker detects the start and the end of speech.
type VoiceDetection struct {
	Threshold float64 `json:"threshold"` // 0 to 1: with a higher value, only speech that differs more clearly from noise is detected
	PrefixMS  int     `json:"prefixMs"`  // duration of the included audio before the detected speech, in ms
	SilenceMS int     `json:"silenceMs"` // silence that ends the speech
}

// inRange reports whether the detection's values are in range. A nil config is in range.
func (c *VoiceConfig) inRange() bool {
	if c == nil || c.Detection == nil {
		return true
	}
	d := c.Detection
	return d.Threshold >= 0 && d.Threshold <= 1 && areTimes(d.PrefixMS, d.SilenceMS)
}

// areTimes reports whether all durations are between 0 and maxVoiceTime milliseconds.
func areTimes(times ...int) bool {
	return !slices.ContainsFunc(times, func(ms int) bool { return ms < 0 || ms > maxVoiceTime })
}

// areSamples reports whether all sample numbers are from 0 to MaxVoiceSample.
func areSamples(samples ...int64) bool {
	return !slices.ContainsFunc(samples, func(n int64) bool { return n < 0 || n > MaxVoiceSample })
}

// Types of commands.
const (
	VoiceConfigure = "configure" // Config applies from now on
	VoiceCommit    = "commit"    // transcribe the sent samples from From to To as Item; speech detection restarts after To
	VoiceClear     = "clear"     // discard the input before the sample From
	VoiceSay       = "say"       // speak Text: the part of Answer from byte Start, its end if Last is set; skip the first Skip samples
	VoiceStop      = "stop"      // stop speaking Answer
	VoiceClose     = "close"     // the session has ended
)

// VoiceCommand is a command from the ingress to the worker.
type VoiceCommand struct {
	Type   string       `json:"type"`
	Config *VoiceConfig `json:"config,omitempty"`
	Item   string       `json:"item,omitempty"`
	From   int64        `json:"from,omitempty"`
	To     int64        `json:"to,omitempty"`
	Answer string       `json:"answer,omitempty"`
	Text   string       `json:"text,omitempty"`  // the next part of the answer in Markdown, as the model wrote it
	Start  int          `json:"start,omitempty"` // offset of Text in the answer, in bytes
	Last   bool         `json:"last,omitempty"`  // the answer ends with Text
	Skip   int64        `json:"skip,omitempty"`  // number of samples that were already sent; only in the first VoiceSay of a resumed session
}

// inRange reports whether all numbers are in range, so that calculations with them cannot overflow.
func (c VoiceCommand) inRange() bool {
	return areSamples(c.From, c.To, c.Skip, int64(c.Start)) && c.Config.inRange()
}

// Types of reports.
const (
	VoiceAlive      = "alive"      // sent every 500 ms, and for every 500 ms of processed audio; has Heard and Needs
	VoiceStarted    = "started"    // Item: speech began at sample From
	VoiceStopped    = "stopped"    // Item: speech from sample From to sample To, which is being transcribed
	VoiceTranscript = "transcript" // Item, Text; an empty Text means that nothing was understood
	VoiceSegment    = "segment"    // Answer: bytes Start to End were synthesized, Samples samples in all so far; sent after the audio
	VoiceSaid       = "said"       // the whole Answer was synthesized
	VoiceFailed     = "failed"     // Failure: an error of the item in Item or the answer in Answer; if both are empty, of the Config
	VoiceLeaving    = "leaving"    // the worker is stopping; the ingress should open the session with another worker
)

// VoiceReport is a report from the worker to the ingress.
type VoiceReport struct {
	Type    string        `json:"type"`
	Heard   int64         `json:"heard,omitempty"` // number of the sample up to which the input was processed
	Needs   int64         `json:"needs,omitempty"` // samples before this number are no longer needed to resume the session
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

// inRange reports whether all numbers are in range, so that calculations with them cannot overflow.
func (r VoiceReport) inRange() bool {
	return areSamples(r.Heard, r.Needs, r.From, r.To, r.Samples, int64(r.Start), int64(r.End))
}

// VoiceFailure is an error in a voice session. Message is shown to the caller.
type VoiceFailure struct {
	Code    string `json:"code"`            // transcription_failed, speech_failed, unknown_voice, unknown_language, overloaded
	Param   string `json:"param,omitempty"` // the invalid session parameter: voice, language
	Message string `json:"message"`
}

// Types of frames: the first byte of a frame.
const (
	frameAudio   = 'a'
	frameControl = 'c'
)

// VoiceAudio is audio in a session. In audio to the worker, Answer is empty.
type VoiceAudio struct {
	At     int64  // number of the first sample in the connection's input or in the answer's output
	Answer string // the spoken answer
	Start  int    // offset of the spoken segment in the answer, in bytes
	End    int
	PCM    []byte // samples
}

// audioHead is the number of bytes that precede the answer's name in an audio frame: type, At,
// Start, End, and the length of the name.
const audioHead = 1 + 8 + 4 + 4 + 1

// Errors of decoding and of encoding frames.
var (
	errFrame = errors.New("reading voice frame: invalid frame")
	errAudio = errors.New("the audio does not fit into a frame")
)

// AppendVoiceAudio appends an audio frame to b. It returns an error if ParseVoiceFrame would
// reject the frame.
func AppendVoiceAudio(b []byte, audio VoiceAudio) ([]byte, error) {
	if len(audio.Answer) > math.MaxUint8 || !audio.inRange() || audio.Start < 0 || audio.End > math.MaxUint32 {
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

// inRange reports whether all values are in range and consistent.
func (a VoiceAudio) inRange() bool {
	return areSamples(a.At) && a.Start <= a.End && len(a.PCM)%2 == 0 && len(a.PCM) <= 2*MaxVoiceFrame
}

// AppendVoiceControl appends a frame with a command or a report to b.
func AppendVoiceControl[T VoiceCommand | VoiceReport](b []byte, control T) ([]byte, error) {
	raw, err := json.Marshal(control)
	if err != nil {
		return b, fmt.Errorf("writing voice frame: %w", err)
	}
	return append(append(b, frameControl), raw...), nil
}

// VoiceFrame is a received frame: either Audio or Control is set.
type VoiceFrame[T VoiceCommand | VoiceReport] struct {
	Audio   *VoiceAudio // shares the message's memory
	Control *T
}

// ParseVoiceFrame is the inverse of AppendVoiceAudio and AppendVoiceControl.
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

		// Numbers from another process are checked here, so that later calculations cannot
		// overflow.
		if bounded, ok := any(*control).(interface{ inRange() bool }); !ok || !bounded.inRange() {
			return VoiceFrame[T]{}, errFrame
		}
		return VoiceFrame[T]{Control: control}, nil
	default:
		return VoiceFrame[T]{}, errFrame
	}
}

// parseAudio decodes an audio frame. The samples share the memory of body.
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
	if !audio.inRange() {
		return nil, errFrame
	}

	return audio, nil
}
