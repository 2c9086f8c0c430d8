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
	// The prefix of the names of models in the settings.
	provider      = "openai/"
	officialURL   = "https://api.openai.com/v1/"
	maxText       = 8_000   // maximum number of characters of a text that are sent; models do not read more
	maxBatch      = 64      // maximum number of texts in one request
	maxCharacters = 100_000 // maximum number of characters in one request, far below the token limits of services
	// Maximum number of bytes of a response.
	responseBytes = 32 << 20
)

// errNoModel reports that no embeddings model is configured.
var errNoModel = errors.New("no embeddings model is set")

// Config contains the settings of the embeddings service. If Limits or Dial is not set, the default
// is used.
type Config struct {
	Model         string // the setting EMBEDDINGS_MODEL: "openai/" and the service's model name; "" for none
	OpenAIAPIKey  string // the setting OPENAI_API_KEY
	OpenAIBaseURL string // the setting OPENAI_BASE_URL, including "/v1"
	Limits        remote.Limits
	// Dial opens connections. If it is nil, TCP is used.
	Dial remote.Dial
}

// Embedder computes vectors with one model. It is safe for concurrent use. A nil *Embedder is valid
// and has no model. A worker has at most one, because all stored vectors must come from one model.
type Embedder struct {
	service sdk.EmbeddingService
	client  *http.Client
	limits  remote.Limits
	model   string // the model name as configured
	name    string // the model name without the provider, as the service expects it
	// number of dimensions of all vectors; 0 before the first response
	size atomic.Int64
}

// New returns an Embedder, or nil if no model is configured. It fails if the model's provider is
// not "openai", if neither a key nor a base URL is set, or if the base URL is invalid. It makes no
// request.
func New(cfg Config) (*Embedder, error) {
	if cfg.Model == "" {
		return nil, nil //nolint:nilnil // a nil Embedder has no model
	}
	name, ok := strings.CutPrefix(cfg.Model, provider)
	switch {
	case !ok || !remote.ModelName(name):
		return nil, fmt.Errorf("EMBEDDINGS_MODEL must be openai/MODEL, not %q", cfg.Model)
	case cfg.OpenAIAPIKey == "" && cfg.OpenAIBaseURL == "":
		return nil, errors.New("EMBEDDINGS_MODEL needs OPENAI_API_KEY, or OPENAI_BASE_URL")
	}

	server, base, err := remote.Config{
		BaseURL: cfg.OpenAIBaseURL, Limits: cfg.Limits, ResponseBytes: responseBytes, Dial: cfg.Dial,
	}.Open(officialURL)
	if err != nil {
		return nil, fmt.Errorf("reading OPENAI_BASE_URL: %w", err)
	}

	e := &Embedder{client: server.Client, limits: server.Limits, model: cfg.Model, name: name}
	// Create the service directly, like the packages of the language models. A client of the SDK
	// would read environment variables.
	e.service = sdk.NewEmbeddingService(
		option.WithBaseURL(base), option.WithAPIKey(cfg.OpenAIAPIKey), option.WithMaxRetries(0), option.WithHTTPClient(e.client),
	)
	return e, nil
}

// Model returns the configured name of the model, or "" for a nil Embedder. Vectors of different
// models are not comparable.
func (e *Embedder) Model() string {
	if e == nil {
		return ""
	}
	return e.model
}

// Close closes idle connections.
func (e *Embedder) Close() {
	if e != nil {
		e.client.CloseIdleConnections()
	}
}

// Embed returns a vector of length 1 for each text, in the same order. It uses only the first 8,000
// characters of a text. All texts must have content.
//
// An error is an *llm.Error, or ctx's error if ctx is done. No request is repeated. If one request
// fails, Embed returns no vectors.
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if e == nil {
		return nil, llm.NewError(llm.KindNotConfigured, errNoModel)
	}

	inputs := make([]string, len(texts))
	for n, text := range texts {
		inputs[n] = llm.CleanText(beginning(text, maxText))
		// Reject empty texts, because services reject the whole request if any text is empty.
		if strings.TrimSpace(inputs[n]) == "" {
			return nil, llm.NewError(llm.KindInvalid, fmt.Errorf("text %d of %d is empty", n+1, len(texts)))
		}
	}

	vectors := make([][]float32, 0, len(texts))
	for len(vectors) < len(inputs) {
		rest := inputs[len(vectors):]
		// Send one request after the other, so that one caller does not use up the rate limit of
		// the service.
		some, err := e.ask(ctx, rest[:batchSize(rest)])
		if err != nil {
			return nil, err
		}
		vectors = append(vectors, some...)
	}
	return vectors, nil
}

// batchSize returns how many of the first texts fit into one request, at least one.
func batchSize(texts []string) int {
	room := maxCharacters
	for n, text := range texts {
		// The first text always fits, because texts are truncated.
		if room -= utf8.RuneCountInString(text); n == maxBatch || room < 0 {
			return max(n, 1)
		}
	}
	return len(texts)
}

// beginning returns a text truncated to the given number of characters.
func beginning(text string, limit int) string {
	for at := range text {
		if limit == 0 {
			return text[:at]
		}
		limit--
	}
	return text
}

// ask requests the vectors of texts in one call of the service, and checks and scales them.
func (e *Embedder) ask(ctx context.Context, texts []string) ([][]float32, error) {
	answer, err := e.call(ctx, Request{Texts: texts})
	if err != nil {
		return nil, err
	}

	vectors, err := e.read(answer, len(texts))
	if err != nil {
		return nil, llm.NewError(llm.KindBadResponse, err)
	}
	return vectors, nil
}

// call calls the service once. The time limits of package remote apply.
func (e *Embedder) call(ctx context.Context, r Request) (*sdk.CreateEmbeddingResponse, error) {
	callCtx, watch := remote.StartWatch(ctx, e.limits)
	defer watch.Stop()
	params := sdk.EmbeddingNewParams{
		Model: e.name, Input: sdk.EmbeddingNewParamsInputUnion{OfArrayOfStrings: r.Texts},
		EncodingFormat: sdk.EmbeddingNewParamsEncodingFormatFloat, // every server supports this encoding
	}
	if r.Dimensions > 0 {
		params.Dimensions = sdk.Int(int64(r.Dimensions))
	}
	var res *http.Response
	answer, err := e.service.New(callCtx, params, option.WithResponseInto(&res))

	// If the response is not JSON, return the error of checkJSON, because it explains the failure
	// better than the error of the SDK.
	if err == nil || res != nil && res.StatusCode < http.StatusBadRequest && ctx.Err() == nil && callCtx.Err() == nil {
		if err := checkJSON(res); err != nil {
			return nil, err
		}
	}

	if err != nil {
		return nil, remote.Failure(ctx, callCtx, remote.FailedStream{
			Err: err, Response: res, Status: openai.StatusError, Event: func(error) *llm.Error { return nil },
		})
	}
	return answer, nil
}

// checkJSON returns an error for responses with a status other than 200, such as redirects, and for
// responses that are not JSON. A typical cause is a URL that leads to a web page.
func checkJSON(res *http.Response) error {
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if res.StatusCode == http.StatusOK && media == "application/json" {
		return nil
	}
	e := llm.NewError(llm.KindBadResponse, fmt.Errorf("unexpected response with status %d and content type %q", res.StatusCode, media))
	e.Retryable = false // a retry would send the request to the same wrong URL
	return e
}
