package embed

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"parley/workers/internal/llm"
	"parley/workers/internal/llm/openai"
	"parley/workers/internal/llm/remote"
)

const (
	provider      = "openai/"
	officialURL   = "https://api.openai.com/v1/"
	maxText       = 8_000   // characters; what models do not read
	maxBatch      = 64      // texts of one request
	maxCharacters = 100_000 // of one request: far below the tokens that services take
	responseBytes = 32 << 20
)

// errNoModel says that there is no embeddings model to ask.
var errNoModel = errors.New("no embeddings model is set")

// Config names the settings of the embeddings service; the zero values of Limits and Dial mean the defaults.
type Config struct {
	Model         string // EMBEDDINGS_MODEL: openai/ and the service's name for it; "" for none
	OpenAIAPIKey  string // OPENAI_API_KEY
	OpenAIBaseURL string // OPENAI_BASE_URL, up to and including "/v1"
	Limits        remote.Limits
	// Dial opens connections; nil dials TCP.
	Dial remote.Dial
}

// Embedder makes vectors with one model; safe for concurrent use. The nil one has no model.
type Embedder struct {
	service sdk.EmbeddingService
	client  *http.Client
	limits  remote.Limits
	model   string // as it is set
	name    string // as the service knows it
	size    atomic.Int64
}

// New makes an Embedder, nil when no model is set. It fails on a model of another provider, and without a service to ask.
func New(cfg Config) (*Embedder, error) {
	if cfg.Model == "" {
		return nil, nil //nolint:nilnil // the nil Embedder is one without a model
	}
	name, ok := strings.CutPrefix(cfg.Model, provider)
	switch {
	case !ok || !remote.ModelName(name):
		return nil, fmt.Errorf("EMBEDDINGS_MODEL must be openai/MODEL, not %q", cfg.Model)
	case cfg.OpenAIAPIKey == "" && cfg.OpenAIBaseURL == "":
		return nil, errors.New("EMBEDDINGS_MODEL needs OPENAI_API_KEY, or OPENAI_BASE_URL")
	}
	base, err := remote.BaseURL(cfg.OpenAIBaseURL, officialURL)
	if err != nil {
		return nil, fmt.Errorf("reading OPENAI_BASE_URL: %w", err)
	}
	e := &Embedder{limits: cfg.Limits.WithDefaults(), model: cfg.Model, name: name}
	e.client = remote.NewClient(cfg.Dial, e.limits, responseBytes)
	// Made directly, as the models are: nothing of it comes from the environment.
	e.service = sdk.NewEmbeddingService(
		option.WithBaseURL(base), option.WithAPIKey(cfg.OpenAIAPIKey), option.WithMaxRetries(0), option.WithHTTPClient(e.client),
	)
	return e, nil
}

// Model is the model's name as it is set, "" when there is none: vectors of one model mean nothing to another.
func (e *Embedder) Model() string {
	if e == nil {
		return ""
	}
	return e.model
}

// Close ends idle connections.
func (e *Embedder) Close() {
	if e != nil {
		e.client.CloseIdleConnections()
	}
}

// Embed gives a vector of length 1 for each text, in their order; of a text of more than 8,000 characters, for its beginning. It
// fails with an *llm.Error, or with ctx's error once ctx is done.
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if e == nil {
		return nil, llm.NewError(llm.KindNotConfigured, errNoModel)
	}
	inputs := make([]string, len(texts))
	for n, text := range texts {
		inputs[n] = llm.CleanText(beginning(text, maxText))
		if strings.TrimSpace(inputs[n]) == "" {
			return nil, llm.NewError(llm.KindInvalid, fmt.Errorf("text %d of %d is empty", n+1, len(texts)))
		}
	}
	vectors := make([][]float32, 0, len(texts))
	for len(vectors) < len(inputs) {
		rest := inputs[len(vectors):]
		some, err := e.ask(ctx, rest[:together(rest)])
		if err != nil {
			return nil, err
		}
		vectors = append(vectors, some...)
	}
	return vectors, nil
}

// together is how many of the texts, from the first on, go into one request.
func together(texts []string) int {
	room := maxCharacters
	for n, text := range texts {
		if room -= utf8.RuneCountInString(text); n == maxBatch || room < 0 {
			return max(n, 1)
		}
	}
	return len(texts)
}

// beginning gives at most so many characters of a text.
func beginning(text string, limit int) string {
	for at := range text {
		if limit == 0 {
			return text[:at]
		}
		limit--
	}
	return text
}

// ask makes one request.
func (e *Embedder) ask(ctx context.Context, texts []string) ([][]float32, error) {
	callCtx, watch := remote.StartWatch(ctx, e.limits)
	defer watch.Stop()
	var res *http.Response
	answer, err := e.service.New(callCtx, sdk.EmbeddingNewParams{
		Model: e.name, Input: sdk.EmbeddingNewParamsInputUnion{OfArrayOfStrings: texts},
		EncodingFormat: sdk.EmbeddingNewParamsEncodingFormatFloat, // which every server knows
	}, option.WithResponseInto(&res))
	if err == nil || res != nil && res.StatusCode < http.StatusBadRequest && ctx.Err() == nil && callCtx.Err() == nil {
		if err := checkJSON(res); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, remote.Failure(ctx, callCtx, remote.Ended{
			Err: err, Response: res, Status: openai.StatusError, Event: func(error) *llm.Error { return nil },
		})
	}
	vectors, err := e.read(answer, len(texts))
	if err != nil {
		return nil, llm.NewError(llm.KindBadResponse, err)
	}
	return vectors, nil
}

// checkJSON refuses what is no answer of such a service: a redirect, or the web page of a wrong address.
func checkJSON(res *http.Response) error {
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if res.StatusCode == http.StatusOK && media == "application/json" {
		return nil
	}
	e := llm.NewError(llm.KindBadResponse, fmt.Errorf("status %d with content type %q", res.StatusCode, media))
	e.Retryable = false // an address that is wrong stays wrong
	return e
}
