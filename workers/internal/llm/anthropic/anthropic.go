package anthropic

import (
	"context"
	"net/http"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"parley/workers/internal/llm"
	"parley/workers/internal/llm/remote"
)

// officialURL is the address of Anthropic's own service.
const officialURL = "https://api.anthropic.com/"

// Config configures a Provider. BaseURL is the address that precedes
// "v1/messages".
type Config = remote.Config

// Provider provides the models of one server. It is safe for concurrent use. All models of the
// server share the provider's connections, which Close frees.
type Provider struct {
	remote.Server

	// messages and models are the endpoints of the server.
	messages sdk.MessageService
	models   sdk.ModelService
}

// New returns the provider for a server. BaseURL must be empty or an HTTP(S) address without
// credentials. Otherwise New returns an error. New makes no request, so a wrong key is noticed only
// by the first call.
func New(cfg Config) (*Provider, error) {
	server, base, err := cfg.Open(officialURL)
	if err != nil {
		return nil, err
	}

	// Create the services directly, because sdk.NewClient reads keys, addresses, profiles and
	// headers from the environment. Disable OpenTelemetry, because the environment could enable
	// spans that contain prompts.
	options := []option.RequestOption{
		option.WithBaseURL(base),
		option.WithMaxRetries(0),
		option.WithHTTPClient(server.Client),
		option.WithoutOpenTelemetry(),
	}

	if cfg.APIKey != "" {
		options = append(options, option.WithAPIKey(cfg.APIKey))
	}
	return &Provider{server, sdk.NewMessageService(options...), sdk.NewModelService(options...)}, nil
}

// Model returns a model by its name on the server, such as "claude-sonnet-5-5". It does not check
// whether the server has the model. If the server does not have it, calls of the model fail.
func (p *Provider) Model(name string) (llm.Model, error) {
	if !remote.ModelName(name) {
		return nil, llm.UnknownModel("anthropic/" + name)
	}
	size := sizeFor(name)
	if p.ContextTokens > 0 {
		size.context = p.ContextTokens
	}
	info := llm.Info{Name: "anthropic/" + name, ContextTokens: size.context}
	return &Model{provider: p, name: name, size: size, info: info}, nil
}

// Model is one model of a server. It has no state of its own, so it is safe for concurrent use.
type Model struct {
	provider *Provider
	name     string
	size     size
	info     llm.Info
}

// Info returns the name "anthropic/" followed by the model's name on the server.
func (m *Model) Info() llm.Info { return m.info }

// Stream makes one call of the Messages API and streams the answer; see [llm.Model]. It never
// repeats a request. A stream without a stop reason is an error, even if text has been emitted.
func (m *Model) Stream(ctx context.Context, req llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	params, err := m.params(req)
	if err != nil {
		return llm.Response{}, llm.NewUnused(llm.KindInvalid, err)
	}

	// From here on, the watch cancels the call if a time limit is exceeded.
	callCtx, watch := remote.StartWatch(ctx, m.provider.Limits)
	defer watch.Stop()

	var res *http.Response
	stream := m.provider.messages.NewStreaming(callCtx, params, option.WithResponseInto(&res))
	defer func() { _ = stream.Close() }()
	if stream.Err() == nil {
		if err := remote.CheckStream(res); err != nil {
			return llm.Response{}, err
		}
	}

	// Only a stop reason proves that the answer is complete. A broken stream may end without an
	// error.
	var acc accumulator
	for watch.Resume(); stream.Next(); watch.Resume() {
		watch.Pause() // the time that emit takes does not count towards the time limits
		if err := acc.add(stream.Current(), emit); err != nil {
			return llm.Response{}, err
		}
		if acc.stop != "" {
			watch.Finishing()
		}
	}
	if acc.stop == "" {
		return llm.Response{}, remote.Failure(ctx, callCtx, remote.FailedStream{
			Err: stream.Err(), Response: res, Unsent: watch.Unsent(), Key: m.provider.Key, Status: fromStatus, Event: fromEvent,
		})
	}
	return acc.response(m.info.Name, req)
}
