package openaiaudio

import (
	"bytes"
	"context"
	"mime"
	"net/http"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"parley/workers/internal/llm/remote"
	"parley/workers/internal/speech"
	"parley/workers/internal/speech/pcm"
)

// maxWords is the maximum number of bytes of a transcript that are kept. A transcript of two
// minutes of very fast speech has a tenth of this size.
const maxWords = 32 << 10

// Transcriber calls audio/transcriptions. It is safe for concurrent use. Close frees its
// connections.
type Transcriber struct {
	service  *service
	endpoint sdk.AudioTranscriptionService
}

// NewTranscriber creates a Transcriber. It fails if BaseURL is not an HTTP or HTTPS URL, if it
// contains credentials, or if Model is not a valid name. It makes no request, so a wrong key is
// noticed only by the first call.
func NewTranscriber(cfg Config) (*Transcriber, error) {
	s, err := newService(cfg, speech.CodeTranscription)
	if err != nil {
		return nil, err
	}
	return &Transcriber{service: s, endpoint: sdk.NewAudioTranscriptionService(s.options...)}, nil
}

// Close closes idle connections.
func (t *Transcriber) Close() { t.service.client.CloseIdleConnections() }

// Transcribe sends the utterance as a WAV file; see [speech.Transcriber]. An utterance without
// audio has the transcript "", without a request. A transcript is truncated to maxWords bytes.
func (t *Transcriber) Transcribe(ctx context.Context, u speech.Utterance) (text string, err error) {
	if err := speech.CheckUtterance(u); err != nil || len(u.PCM) == 0 {
		return "", err
	}
	speech.Begin(u.Begun)
	err = t.service.guarded(ctx, func() error {
		text, err = t.ask(ctx, u)
		return err
	})
	if err != nil {
		return "", err
	}
	return strings.ToValidUTF8(text[:min(len(text), maxWords)], ""), nil
}

// ask sends the request and returns the transcript. The error is an *llm.Error, or the error of
// ctx.
func (t *Transcriber) ask(ctx context.Context, u speech.Utterance) (string, error) {
	callCtx, watch := remote.StartWatch(ctx, t.service.limits)
	defer watch.Stop()
	wav := pcm.AppendWAV(make([]byte, 0, len(u.PCM)+64), u.PCM, speech.Rate)
	params := sdk.AudioTranscriptionNewParams{
		File: sdk.File(bytes.NewReader(wav), "speech.wav", "audio/wav"), Model: t.service.model, ResponseFormat: sdk.AudioResponseFormatJSON,
	}

	if u.Language != "" {
		params.Language = sdk.String(u.Language)
	}
	if u.Prompt != "" {
		params.Prompt = sdk.String(u.Prompt)
	}

	var res *http.Response
	answer, err := t.endpoint.New(callCtx, params, option.WithResponseInto(&res))
	// A successful response that is not JSON comes from another server, such as a proxy with a
	// login page.
	if res != nil && res.StatusCode < http.StatusBadRequest && callCtx.Err() == nil {
		media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
		if res.StatusCode != http.StatusOK || media != "application/json" {
			return "", badAnswer("unexpected response with status %d and content type %q", res.StatusCode, media)
		}
	}

	if err != nil {
		return "", t.service.failure(ctx, callCtx, err, res)
	}
	if !answer.JSON.Text.Valid() {
		return "", badAnswer("the response has no text")
	}
	return speech.CleanText(answer.Text), nil
}
