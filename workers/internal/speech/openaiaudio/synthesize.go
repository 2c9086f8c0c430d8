package openaiaudio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"parley/workers/internal/llm"
	"parley/workers/internal/llm/openai"
	"parley/workers/internal/llm/remote"
	"parley/workers/internal/speech"
)

const (
	defaultVoice = "alloy"
	pieceLen     = 16 << 10
)

// voiceName matches the voice names of OpenAI and other services.
var voiceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 _.,:+/()-]{0,99}$`)

// Synthesizer calls audio/speech. It is safe for concurrent use. Close frees its connections.
type Synthesizer struct {
	service  *service
	endpoint sdk.AudioSpeechService
	voice    string
}

// NewSynthesizer creates a Synthesizer. It fails for the same reasons as NewTranscriber, and if
// Voice is not a valid name.
func NewSynthesizer(cfg Config) (*Synthesizer, error) {
	s, err := newService(cfg, speech.CodeSpeech)
	if err != nil {
		return nil, err
	}
	if cfg.Voice == "" {
		cfg.Voice = defaultVoice
	}
	if !voiceName.MatchString(cfg.Voice) {
		return nil, fmt.Errorf("setting up speech: invalid voice name %q", cfg.Voice)
	}
	return &Synthesizer{service: s, endpoint: sdk.NewAudioSpeechService(s.options...), voice: cfg.Voice}, nil
}

// Close closes idle connections.
func (s *Synthesizer) Close() { s.service.client.CloseIdleConnections() }

// Synthesize passes the audio to the function out as it arrives; see [speech.Synthesizer]. The time
// limits do not include the time that is spent in out. An error of out is returned unchanged. Only
// the form of a voice's name is checked here, because services have different voices.
func (s *Synthesizer) Synthesize(ctx context.Context, line speech.Line, out func([]byte) error) error {
	line, err := speech.CleanLine(line)
	if err != nil {
		return err
	}
	if line.Voice == "" {
		line.Voice = s.voice
	}
	if !voiceName.MatchString(line.Voice) {
		return unknownVoice(nil)
	}
	if line.Text == "" {
		return nil
	}
	speech.Begin(line.Begun)
	return s.service.guarded(ctx, func() error { return s.ask(ctx, line, out) })
}

// ask sends the request and passes the audio to the function out. Errors are of type *llm.Error or
// *speech.Error, or the unchanged error of ctx or out.
func (s *Synthesizer) ask(ctx context.Context, line speech.Line, out func([]byte) error) error {
	callCtx, watch := remote.StartWatch(ctx, s.service.limits)
	defer watch.Stop()
	params := sdk.AudioSpeechNewParams{
		Input: line.Text, Model: s.service.model, ResponseFormat: sdk.AudioSpeechNewParamsResponseFormatPCM,
		Voice: sdk.AudioSpeechNewParamsVoiceUnion{OfString: sdk.String(line.Voice)},
	}
	if line.Speed != 1 {
		params.Speed = sdk.Float(line.Speed)
	}

	var res *http.Response
	_, err := s.endpoint.New(callCtx, params, option.WithResponseInto(&res)) //nolint:bodyclose // the returned response is also in res
	if res != nil {
		defer func() { _ = res.Body.Close() }()
	}

	// The body is read before the error is classified, because some services name the unknown voice
	// only in the body.
	refusal := readRefusal(res)
	if isUnknownVoice(res, refusal) {
		return unknownVoice(openai.StatusError(res.StatusCode, refusal))
	}
	if err != nil {
		return s.service.failure(ctx, callCtx, err, res)
	}

	if err := checkSound(res); err != nil {
		return err
	}

	err = relay(callCtx, res.Body, watch, out)
	if own, is := errors.AsType[*outError](err); is {
		return own.error
	}
	if err != nil {
		return s.service.failure(ctx, callCtx, err, res)
	}
	return nil
}

// maxRefusal is the maximum number of bytes of an error response that are read.
const maxRefusal = 64 << 10

// readRefusal reads the body of an error response and restores it for later readers. It returns nil
// for a successful response.
func readRefusal(res *http.Response) []byte {
	if res == nil || res.StatusCode < http.StatusBadRequest {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxRefusal))
	if err != nil {
		return nil // the status alone is sufficient
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return body
}

// isUnknownVoice reports whether the service has rejected the voice. OpenAI's error names the
// field; errors of other services mention the voice in the message.
func isUnknownVoice(res *http.Response, refusal []byte) bool {
	if len(refusal) == 0 {
		return false
	}
	switch res.StatusCode {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity:
		return strings.Contains(strings.ToLower(string(refusal)), "voice")
	default:
		return false
	}
}

// unknownVoice returns the error for a voice that the service does not know. cause may be nil.
func unknownVoice(cause error) error {
	return &speech.Error{Code: speech.CodeUnknownVoice, Message: "The speech service does not know this voice.", Cause: cause}
}

// checkSound returns an error if a response is not PCM audio but, for example, a web page.
func checkSound(res *http.Response) error {
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch media {
	case "", "audio/pcm", "audio/x-pcm", "audio/raw", "application/octet-stream":
		if res.StatusCode == http.StatusOK {
			return nil
		}
	default:
	}
	return badAnswer("unexpected response with status %d and content type %q instead of PCM", res.StatusCode, media)
}

// outError marks an error that the function out has returned.
type outError struct{ error }

// relay passes whole samples, of two bytes each, to the function out as they arrive. An odd byte
// waits for the next byte. relay fails if the response contains no audio.
func relay(ctx context.Context, body io.Reader, watch *remote.Watch, out func([]byte) error) error {
	buffer, kept, sounded := make([]byte, pieceLen), 0, false
	for {
		watch.Resume()
		n, err := body.Read(buffer[kept:])
		watch.Pause() // the time limits do not count the time spent in the function out
		have := kept + n

		if whole := have &^ 1; whole > 0 {
			sounded = true
			if err := out(buffer[:whole]); err != nil {
				return &outError{err}
			}
			kept = copy(buffer, buffer[whole:have])
		} else {
			kept = have
		}

		if errors.Is(err, io.EOF) {
			if !sounded {
				return llm.NewError(llm.KindTruncated, errors.New("no audio"))
			}
			return nil
		}
		if err = errors.Join(err, ctx.Err()); err != nil { // after the call has ended, buffered audio is useless
			return err
		}
	}
}
