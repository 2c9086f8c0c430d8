package parley

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// Version is the version of the SDK. The service that was released together with the SDK has the
// same version.
const Version = "0.3.0"

// Defaults of Options, and the fixed timeout of the transport.
const (
	defaultBaseURL  = "http://127.0.0.1:8080"
	defaultRetries  = 2
	defaultPatience = time.Minute
	// headerTimeout is the time within which the service must send the header of a response. It is
	// longer than the longest wait that the API accepts.
	headerTimeout = 90 * time.Second
)

// Options select the service, the caller and the retries. If BaseURL, Key or Organization is empty,
// New reads it from the environment. The zero value of Options is valid.
type Options struct {
	BaseURL      string // default: PARLEY_BASE_URL, or http://127.0.0.1:8080
	Key          string // an API key, a session token or a widget token; default: PARLEY_API_KEY
	Organization string // the organization that a user's key acts in; default: PARLEY_ORGANIZATION_ID
	Demo         bool   // demo mode, without a key: lists templates and chats with them
	UserAgent    string // default: parley-sdk-go/ and the version

	Transport http.RoundTripper // sends the requests; default: a separate transport

	Dials    int                                        // retries of a request while the service has never responded; 0: Retries
	Retries  int                                        // retries of a request; 0: two; negative: none
	Patience time.Duration                              // longest Retry-After for which a retry waits; 0: a minute
	Waiting  func(cause error, pause time.Duration)     // called before each pause; may be nil
	pause    func(context.Context, time.Duration) error // waits between attempts; replaced in tests
}

// Client calls one service. It is safe for concurrent use. Create it once and share it, because it
// keeps connections open.
type Client struct {
	Agents        Agents        // the organization's agents
	Templates     Templates     // the templates, with which everyone may chat
	Chat          Chat          // messages to agents and templates
	Automations   Automations   // runs of agents by schedulers and services
	Runs          Runs          // the runs of messages and triggers
	Sessions      Sessions      // chats with their messages
	Knowledge     Knowledge     // the documents that agents search and cite
	Files         Files         // files that runs created
	Sources       Sources       // texts that answers cite
	Hooks         Hooks         // webhooks that start runs
	Notifications Notifications // endpoints that receive the organization's events
	Keys          Keys          // API keys
	Usage         UsageReports  // counts, costs and limits
	Budgets       Budgets       // hard limits on tokens and costs

	options Options
	base    string
	header  map[string]string // credential and organization, sent with every request
	http    *http.Client
	reached atomic.Bool // whether the service has responded at least once
}

// New returns a client. It makes no request. It returns an error if the URL is malformed, if the
// key is missing, or if a key is set in demo mode.
func New(options Options) (*Client, error) {
	options.BaseURL = cmp.Or(options.BaseURL, os.Getenv("PARLEY_BASE_URL"), defaultBaseURL)
	at, err := url.Parse(options.BaseURL)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return nil, fmt.Errorf("the service's URL must be like http://127.0.0.1:8080, not %q", options.BaseURL)
	}

	header, err := identity(options)
	if err != nil {
		return nil, err
	}

	if options.pause == nil {
		options.pause = sleep
	}

	// A negative number of retries means none.
	options.Patience = cmp.Or(options.Patience, defaultPatience)
	options.Retries = max(cmp.Or(options.Retries, defaultRetries), 0)
	if options.Transport == nil {
		options.Transport = &http.Transport{
			Proxy: http.ProxyFromEnvironment, ResponseHeaderTimeout: headerTimeout, TLSHandshakeTimeout: 10 * time.Second, ForceAttemptHTTP2: true,
		}
	}

	// Redirects are not followed, because they could send the key to another host.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c := &Client{
		options: options, base: strings.TrimRight(options.BaseURL, "/"), header: header,
		http: &http.Client{Transport: options.Transport, CheckRedirect: stay},
	}
	c.group()
	return c, nil
}

// group sets the fields that group the client's methods. It is called once, by New.
func (c *Client) group() {
	g := group{c}
	c.Agents, c.Templates, c.Chat, c.Automations, c.Runs = Agents{g}, Templates{g}, Chat{g}, Automations{g}, Runs{g}
	c.Sessions, c.Knowledge, c.Files, c.Sources = Sessions{g}, Knowledge{g}, Files{g}, Sources{g}
	c.Hooks, c.Notifications, c.Keys, c.Usage, c.Budgets = Hooks{g}, Notifications{g}, Keys{g}, UsageReports{g}, Budgets{g}
}

// group is embedded in the types that group methods of a client. New sets the field client. A zero
// group cannot send requests.
type group struct{ client *Client }

// identity returns the headers that identify the caller. A key that begins with ak_ is an API key;
// any other key is sent as a bearer token. identity returns an error if the key is missing, or if a
// key is set in demo mode.
func identity(options Options) (map[string]string, error) {
	header := map[string]string{"User-Agent": cmp.Or(options.UserAgent, "parley-sdk-go/"+Version)}
	if options.Demo {
		if options.Key != "" {
			return nil, errors.New("a key is not allowed in demo mode")
		}
		header["X-Tenant-Id"] = "tenant_demo"
		return header, nil
	}

	key := cmp.Or(options.Key, os.Getenv("PARLEY_API_KEY"))
	switch {
	case key == "":
		return nil, errors.New("no API key: set Options.Key or PARLEY_API_KEY, or Options.Demo to chat with templates")
	case strings.HasPrefix(key, "ak_"):
		header["X-Api-Key"] = key
	default:
		header["Authorization"] = "Bearer " + key
	}

	if organization := cmp.Or(options.Organization, os.Getenv("PARLEY_ORGANIZATION_ID")); organization != "" {
		header["X-Organization-Id"] = organization
	}
	return header, nil
}

// isVisitor reports whether the caller is a visitor of the demo or of a widget. Visitors may not
// read runs. To wait for a run or to resume its stream, they repeat the message with the same
// idempotency key. The prefix of a token shows its kind.
func (c *Client) isVisitor() bool {
	return c.options.Demo || strings.HasPrefix(c.header["Authorization"], "Bearer wt_")
}
