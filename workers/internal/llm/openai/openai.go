package openai

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"parley/workers/internal/llm"
)

// officialURL is OpenAI's own address, used when the settings name none.
const officialURL = "https://api.openai.com/v1/"

// defaultResponseBytes bounds one answer on the wire: far above any model's output limit, far below harm.
const defaultResponseBytes = 8 << 20

// Config sets up a provider; the zero values of all but APIKey and BaseURL mean the defaults.
type Config struct {
	APIKey        string // may be empty for servers that ask for none
	BaseURL       string // up to and including "/v1"; empty is OpenAI itself
	Limits        Limits
	ContextTokens int   // of every model; 0 goes by the model's name
	ResponseBytes int64 // cap on one answer on the wire
	// Dial opens connections; nil dials TCP. Tests pass one end of a pipe.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Provider makes models of one server; safe for concurrent use.
type Provider struct {
	chat      sdk.ChatCompletionService
	transport *http.Transport
	limits    Limits
	context   int
	official  bool
}

// New makes the provider of a server; it fails if BaseURL is not an http(s) address without credentials.
func New(cfg Config) (*Provider, error) {
	base, err := baseURL(cfg.BaseURL)
	if err != nil {
		return nil, err
	}
	limits := cfg.Limits.withDefaults()
	transport := newTransport(cfg.Dial, limits)
	size := cfg.ResponseBytes
	if size <= 0 {
		size = defaultResponseBytes
	}
	// The service is made directly, not through sdk.NewClient, which reads keys, addresses
	// and extra headers from the environment.
	chat := sdk.NewChatCompletionService(
		option.WithBaseURL(base),
		option.WithAPIKey(cfg.APIKey),
		option.WithMaxRetries(0),
		option.WithHTTPClient(&http.Client{
			Transport:     &capped{next: transport, limit: size},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}),
	)
	return &Provider{
		chat: chat, transport: transport, limits: limits,
		context: cfg.ContextTokens, official: base == officialURL,
	}, nil
}

// Close ends idle connections; models in use go on.
func (p *Provider) Close() { p.transport.CloseIdleConnections() }

// Model binds a model of the server by its own name, such as "gpt-5-mini"; whether it exists shows at its first call.
func (p *Provider) Model(name string) (llm.Model, error) {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil, llm.UnknownModel("openai/" + name)
	}
	size := p.context
	if size <= 0 {
		size = contextTokens(name)
	}
	return &Model{provider: p, name: name, info: llm.Info{Name: "openai/" + name, ContextTokens: size}}, nil
}

// Model is one model of a server.
type Model struct {
	provider *Provider
	name     string
	info     llm.Info
}

// Info names the model as "openai/" and the server's name for it.
func (m *Model) Info() llm.Info { return m.info }

// Stream makes one Chat Completions call and streams its answer; see [llm.Model].
func (m *Model) Stream(ctx context.Context, req llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	params, err := newParams(m.name, req, m.provider.official)
	if err != nil {
		return llm.Response{}, llm.NewError(llm.KindInvalid, err)
	}
	callCtx, watch := startWatch(ctx, m.provider.limits)
	defer watch.stop()

	var res *http.Response
	stream := m.provider.chat.NewStreaming(callCtx, params, option.WithResponseInto(&res))
	defer func() { _ = stream.Close() }()
	if stream.Err() == nil {
		if err := checkStream(res); err != nil {
			return llm.Response{}, err
		}
	}
	var acc accumulator
	for watch.resume(); stream.Next(); watch.resume() {
		watch.pause() // the caller's time is not the provider's
		if err := acc.add(stream.Current(), emit); err != nil {
			return llm.Response{}, err
		}
		if acc.finish != "" {
			watch.finishing()
		}
	}
	if acc.finish == "" {
		return llm.Response{}, failure(ctx, callCtx, stream.Err(), res)
	}
	return acc.response(m.info.Name, req)
}

// checkStream refuses answers that are no event stream: a redirect, or the web page of a wrong address.
func checkStream(res *http.Response) error {
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if res.StatusCode == http.StatusOK && media != "text/html" && media != "application/json" {
		return nil
	}
	e := llm.NewError(llm.KindBadResponse, fmt.Errorf("status %d with content type %q", res.StatusCode, media))
	e.Retryable = false // an address that is wrong stays wrong
	return e
}

// capped limits how much of a response is read: an endless one must not fill the memory.
type capped struct {
	next  http.RoundTripper
	limit int64
}

// RoundTrip makes the request and puts the limit on its body.
func (c *capped) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := c.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	res.Body = http.MaxBytesReader(nil, res.Body, c.limit)
	return res, nil
}

func newTransport(dial func(ctx context.Context, network, address string) (net.Conn, error), limits Limits) *http.Transport {
	if dial == nil {
		dial = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
	}
	// A dial outlives the request that it was made for, so that another can use the connection:
	// it needs a limit of its own.
	limited := func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, limits.Connect)
		defer cancel()
		return dial(ctx, network, address)
	}
	return &http.Transport{
		Proxy:               nil, // none from the environment: it would see keys and prompts
		DialContext:         limited,
		TLSHandshakeTimeout: limits.Connect,
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        256,
		MaxIdleConnsPerHost: 128,
		IdleConnTimeout:     90 * time.Second,
	}
}

func baseURL(raw string) (string, error) {
	if raw == "" {
		return officialURL, nil
	}
	u, err := url.Parse(raw)
	if err != nil {
		return "", errors.New("parsing base URL: not a URL") // the cause would repeat it, credentials included
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("checking base URL: want http(s)://host/path without credentials, query or fragment")
	}
	if !strings.HasSuffix(u.Path, "/") {
		u.Path += "/"
	}
	return u.String(), nil
}

// contextTokens goes by the families' published context sizes; a model that is not
// listed gets what nearly every current one has, and the turn loop shortens the
// prompt if the server still finds it too long.
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
