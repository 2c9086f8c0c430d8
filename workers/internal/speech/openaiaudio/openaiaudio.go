package openaiaudio

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/openai/openai-go/v3/option"
	"github.com/sony/gobreaker/v2"

	"parley/workers/internal/llm"
	"parley/workers/internal/llm/openai"
	"parley/workers/internal/llm/remote"
	"parley/workers/internal/speech"
)

const (
	officialURL   = "https://api.openai.com/v1/"
	responseBytes = 25 << 20 // maximum size of a response in bytes, which is nine minutes of audio

	// total is the default time limit of a call. It is much longer than a spoken line, because
	// audio may be received only at the pace at which it is played.
	total = 15 * time.Minute

	// The circuit breaker opens after this number of consecutive failures, and stays open for
	// openTime.
	faults   = 5
	openTime = 10 * time.Second
)

// Config configures a Transcriber or a Synthesizer. Model is required, and APIKey may be empty. All
// other zero values select defaults.
type Config struct {
	Model   string // name by which the service knows the model
	APIKey  string // may be empty for services without authentication
	BaseURL string // including "/v1"; empty means OpenAI's own service
	Voice   string // the voice of lines that name no voice; "" means alloy
	// Limits are the time limits of a call. By default, these are 5 s for connecting, 30 s until
	// the first audio or the transcript, and 30 s between pieces of audio.
	Limits remote.Limits
	// Dial opens connections. If it is nil, TCP is used.
	Dial remote.Dial
}

// service contains the parts that Transcriber and Synthesizer have in common. Transcriber and
// Synthesizer have separate values, so failures of one do not affect the other. A service is safe
// for concurrent use.
type service struct {
	model   string
	code    string // code of the errors that are returned
	limits  remote.Limits
	client  *http.Client
	options []option.RequestOption
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
}

// newService creates the client of the service and the circuit breaker. Errors have the given code.
// newService makes no request. It fails for an invalid model name or URL.
func newService(cfg Config, code string) (*service, error) {
	if !remote.ModelName(cfg.Model) {
		return nil, fmt.Errorf("setting up speech: invalid model name %q", cfg.Model)
	}

	if cfg.Limits.Total <= 0 {
		cfg.Limits.Total = total
	}
	server, base, err := remote.Config{
		BaseURL: cfg.BaseURL, Limits: cfg.Limits, ResponseBytes: responseBytes, Dial: cfg.Dial,
	}.Open(officialURL)
	if err != nil {
		return nil, fmt.Errorf("setting up speech: %w", err)
	}

	s := &service{model: cfg.Model, code: code, limits: server.Limits, client: server.Client}
	s.options = []option.RequestOption{ // set all options explicitly, so that the SDK takes no option from the environment
		option.WithBaseURL(base), option.WithAPIKey(cfg.APIKey), option.WithMaxRetries(0), option.WithHTTPClient(s.client),
	}

	s.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests: 1, Timeout: openTime,
		ReadyToTrip:  func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= faults },
		IsSuccessful: func(err error) bool { return !isFault(err) },
	})
	return s, nil
}

// isFault reports whether err is a temporary failure of the service. Only such failures count for
// the circuit breaker. If the caller has cancelled a call, the call does not count as a failure.
// Rejected requests do not count either, because the service has answered.
func isFault(err error) bool {
	e, is := errors.AsType[*llm.Error](err)
	if !is || !e.Retryable || e.MidAnswer {
		return false
	}
	switch e.Kind {
	case llm.KindUnavailable, llm.KindTimeout, llm.KindTruncated, llm.KindBadResponse:
		return true
	default:
		return false
	}
}

// guarded executes call, which makes a request to the service, and converts its error. While the
// circuit breaker is open, guarded fails immediately instead. If ctx has ended, the error wraps
// ctx's error.
func (s *service) guarded(ctx context.Context, call func() error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("calling the speech service: %w", ctx.Err())
	}
	report, err := s.breaker.Allow()
	if err != nil {
		return s.failed(llm.NewError(llm.KindUnavailable, err))
	}

	// This outcome remains only if call panics. The outcome of every call that the circuit breaker
	// has allowed must be reported.
	outcome := error(llm.NewError(llm.KindUnavailable, errors.New("the call panicked")))
	defer func() { report(outcome) }()
	outcome = call()
	return s.failed(outcome)
}

// failure classifies the error of a failed call. The result is an *llm.Error or ctx's error.
// callCtx is the context of the request, which also ends at a time limit. res may be nil.
func (s *service) failure(ctx, callCtx context.Context, err error, res *http.Response) error {
	return remote.Failure(ctx, callCtx, remote.FailedStream{
		Err: err, Response: res, Status: openai.StatusError, Event: func(error) *llm.Error { return nil },
	})
}

// messages contains the messages that callers receive, by kind of failure.
var messages = map[llm.Kind]string{
	llm.KindRateLimited:  "The speech service is limiting requests; try again.",
	llm.KindTimeout:      "The speech service did not respond in time.",
	llm.KindTruncated:    "The speech service's response was interrupted.",
	llm.KindBadResponse:  "The speech service's response could not be read.",
	llm.KindTooLarge:     "The speech service's response exceeded the size limit.",
	llm.KindInvalid:      "The speech service rejected the request.",
	llm.KindAuth:         "The speech service rejected this server's credentials.",
	llm.KindQuota:        "This server's account at the speech service has no credit or quota left.",
	llm.KindUnknownModel: "The speech service does not know the configured model.",
	llm.KindFiltered:     "The speech service withheld its response.",
}

// failed converts an *llm.Error to a *speech.Error. It returns any other error unchanged.
func (s *service) failed(err error) error {
	e, is := errors.AsType[*llm.Error](err)
	if !is {
		return err
	}
	message, known := messages[e.Kind]
	if !known {
		message = "The speech service is not available; try again."
	}
	return &speech.Error{Code: s.code, Message: message, Retryable: e.Retryable, Cause: err}
}

// badAnswer returns the error for a response that has an unexpected form.
func badAnswer(format string, args ...any) *llm.Error {
	e := llm.NewError(llm.KindBadResponse, fmt.Errorf(format, args...))
	e.Retryable = false // a retry would use the same wrong URL
	return e
}
