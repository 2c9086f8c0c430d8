package openai

import (
	"context"
	"net/http"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"parley/workers/internal/llm"
	"parley/workers/internal/llm/remote"
)

// officialURL is the address of OpenAI's own service.
const officialURL = "https://api.openai.com/v1/"

// Config configures a Provider. BaseURL includes "/v1".
type Config = remote.Config

// Provider provides the models of one server. It is safe for concurrent use. All models of the
// server share the provider's connections, which Close frees.
type Provider struct {
	remote.Server

	// chat and models are the endpoints of the server.
	chat   sdk.ChatCompletionService
	models sdk.ModelService
}

// New returns the provider for a server. BaseURL must be empty or an HTTP(S) address without
// credentials. Otherwise New returns an error. New makes no request, so a wrong key is noticed only
// by the first call.
func New(cfg Config) (*Provider, error) {
	server, base, err := cfg.Open(officialURL)
	if err != nil {
		return nil, err
	}

	// Create the services directly, because sdk.NewClient reads keys, addresses and headers from
	// the environment.
	options := []option.RequestOption{
		option.WithBaseURL(base),
		option.WithAPIKey(cfg.APIKey),
		option.WithMaxRetries(0),
		option.WithHTTPClient(server.Client),
	}
	return &Provider{server, sdk.NewChatCompletionService(options...), sdk.NewModelService(options...)}, nil
}

// Model returns a model by its name on the server, such as "gpt-5-mini". It does not check whether
// the server has the model. If the server does not have it, calls of the model fail.
func (p *Provider) Model(name string) (llm.Model, error) {
	if !remote.ModelName(name) {
		return nil, llm.UnknownModel("openai/" + name)
	}
	size := p.ContextTokens
	if size <= 0 {
		size = contextTokens(name)
	}
	return &Model{provider: p, name: name, info: llm.Info{Name: "openai/" + name, ContextTokens: size}}, nil
}

// Model is one model of a server. It has no state of its own, so it is safe for concurrent use.
type Model struct {
	provider *Provider
	name     string
	info     llm.Info
}

// Info returns the name "openai/" followed by the model's name on the server.
func (m *Model) Info() llm.Info { return m.info }

// Stream makes one call of Chat Completions and streams the answer; see [llm.Model]. It never
// repeats a request.
//
// A stream without a finish_reason is an error, even if text has been emitted.
func (m *Model) Stream(ctx context.Context, req llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	// From here on, the watch cancels the call if a time limit is exceeded.
	callCtx, watch := remote.StartWatch(ctx, m.provider.Limits)
	defer watch.Stop()

	var res *http.Response
	stream, err := m.open(callCtx, &req, &res)
	if err != nil {
		return llm.Response{}, err
	}
	defer stream.Close()
	if stream.Err() == nil {
		if err := remote.CheckStream(res); err != nil {
			return llm.Response{}, err
		}
	}

	// Only a finish_reason proves that the answer is complete. A broken stream may end without an
	// error.
	var acc accumulator
	for watch.Resume(); stream.Next(); watch.Resume() {
		watch.Pause() // the time that emit takes does not count towards the time limits
		if err := acc.add(stream.Current(), emit); err != nil {
			return llm.Response{}, err
		}
		if acc.finish != "" {
			watch.Finishing()
		}
	}
	if acc.finish == "" {
		return llm.Response{}, remote.Failure(ctx, callCtx, remote.FailedStream{
			Err: stream.Err(), Response: res, Unsent: watch.Unsent(), Key: m.provider.Key, Status: fromStatus, Event: fromEvent,
		})
	}
	return acc.response(m.info.Name, req)
}

// open starts the call for a request. It returns an error only if the request cannot be converted;
// a failed call is an error of the stream. It is a separate function, because the parameters take 4
// KiB, which would otherwise stay on the stack of Stream while the answer arrives.
func (m *Model) open(ctx context.Context, req *llm.Request, res **http.Response) (*chunkStream, error) {
	params, err := newParams(m.name, *req, m.provider.Official)
	if err != nil {
		return nil, llm.NewUnused(llm.KindInvalid, err)
	}
	return m.provider.stream(ctx, params, res), nil
}

// contextTokens returns the published context size of a model in tokens. For an unknown model, it
// returns a size that almost every current model has. If a prompt is nevertheless too long, the
// agent loop shortens it.
func contextTokens(name string) int {
	sizes := []struct {
		prefix string
		tokens int
	}{
		{"gpt-5", 400_000},
		{"gpt-4.1", 1_000_000},
		{"gpt-4o", 128_000},
		{"gpt-4-turbo", 128_000},
		{"gpt-4", 8_192},
		{"gpt-3.5", 16_385},
		{"o1", 200_000},
		{"o3", 200_000},
		{"o4", 200_000},
	}

	for _, s := range sizes {
		if strings.HasPrefix(name, s.prefix) {
			return s.tokens
		}
	}
	return 32_000
}
