package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"parley/deploy/standalone/internal/console"
	parley "parley/sdk/go"
	"parley/shared/lifecycle"
)

// Service contains the options that select the service to call and its credentials. Missing values
// come from credentials.json in DATA_DIR, which parley up writes.
type Service struct {
	URL          string `name:"url" env:"PARLEY_BASE_URL" placeholder:"URL" help:"URL of the service. Default: the service that parley up started with this DATA_DIR."`
	Key          string `name:"key" env:"PARLEY_API_KEY" placeholder:"KEY" help:"API key. Other users of the machine can see arguments, so prefer the variable. Default: the key in credentials.json, but only for the URL in that file."`
	Organization string `name:"organization" env:"PARLEY_ORGANIZATION_ID" placeholder:"ID" help:"Organization to act in, if the key belongs to a user."`
	DataDir      string `name:"data-dir" env:"DATA_DIR" default:"./.data" placeholder:"PATH" help:"Where parley up keeps its data; default: ${default}."`
	JSON         bool   `name:"json" help:"Print JSON and no progress."`
}

// credentials contains the values in credentials.json that commands use. Package standalone writes
// the file.
type credentials struct {
	BaseURL string `json:"baseUrl"`
	APIKey  string `json:"apiKey"`
	AgentID string `json:"agentId"`
}

// connection is a client of the selected service. It is safe for concurrent use.
type connection struct {
	*parley.Client
	url   string
	agent string // ID of the demo agent; empty if the selected service is not the one in credentials.json
}

// retryLimits limits how often and how long a command repeats its requests. Only requests that are
// safe to repeat are repeated.
type retryLimits struct {
	dials int // maximum attempts to reach a service that has not responded yet; 0: as many as retries
	// retries is the maximum number of repetitions of a request. patience is the longest delay that
	// the service may demand.
	retries  int
	patience time.Duration
	// demo means that the command acts as a demo visitor, without a key.
	demo bool
	// waiting is called before each delay; nil if nothing is to be shown.
	waiting func(error, time.Duration)
}

// usual contains the limits for commands whose result a person waits for.
var usual = retryLimits{dials: 2, retries: 2, patience: 10 * time.Second}

// connect returns a client of the service that the options and credentials.json select. It sends no
// request. The key in the file is used only for the URL in the file, so that it is never sent to
// another service.
func (s *Service) connect(how retryLimits) (*connection, error) {
	known, err := s.known()
	if err != nil {
		return nil, err
	}

	at, key, agent := s.URL, s.Key, ""
	if at == "" {
		at = known.BaseURL
	}
	if at == "" {
		return nil, exit(ExitFailure, "no Parley service has used the data directory %s: start it with `parley up`, or give a URL with --url", s.DataDir)
	}
	if strings.TrimRight(at, "/") == strings.TrimRight(known.BaseURL, "/") {
		agent = known.AgentID
		if key == "" {
			key = known.APIKey // credentials.json contains this key for this URL
		}
	}
	if address, err := url.Parse(at); key == "" && !how.demo && err == nil && address.Host != "" { // New reports a malformed URL
		return nil, exit(ExitArguments, "no API key for %s: set PARLEY_API_KEY or --key", parley.Bare(at))
	}

	if how.demo {
		key = ""
	}
	c, err := parley.New(parley.Options{
		BaseURL: at, Key: key, Organization: s.Organization, Demo: how.demo, UserAgent: "parley-cli",
		Dials: how.dials, Retries: cmp.Or(how.retries, -1), Patience: how.patience, Waiting: how.waiting,
	})
	if err != nil {
		return nil, &coded{ExitArguments, err}
	}
	return &connection{Client: c, url: at, agent: agent}, nil
}

// known returns the content of credentials.json, or empty values if the file does not exist. If a
// URL was given, a file that this process has no permission to read counts as missing.
func (s *Service) known() (made credentials, err error) {
	path := filepath.Join(s.DataDir, "credentials.json")
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || s.URL != "" && errors.Is(err, fs.ErrPermission) {
		return made, nil
	}
	if err != nil {
		return made, fmt.Errorf("reading credentials: %w", err)
	}
	if err := json.Unmarshal(raw, &made); err != nil {
		return made, fmt.Errorf("reading %s: %w", path, err)
	}
	return made, nil
}

// explain adds a hint for the user to an error from the service: how to start the service if it
// cannot be reached. It returns nil for nil, and turns a signal into an interruption.
func (s *Service) explain(err error) error {
	if _, is := errors.AsType[*lifecycle.SignalError](err); is {
		if _, said := errors.AsType[*interruption](err); !said {
			return &interruption{cause: err}
		}
		return err
	}
	if !errors.Is(err, parley.ErrUnreachable) || errors.Is(err, context.Canceled) {
		return err
	}
	if s.URL != "" {
		return fmt.Errorf("%w\nTo run it on this machine: parley up", err)
	}

	command := "parley up"
	if s.DataDir != "" && s.DataDir != "./.data" {
		command += " --data-dir " + s.DataDir
	}
	return fmt.Errorf("%w\nStart it with: %s   (or give another URL with --url)", err, command)
}

// pageSize is the number of entries of a page, which is the service's maximum.
const pageSize = "100"

// all returns up to limit entries of a list, as JSON from the service. It requests as many pages as
// necessary. It changes query.
func (c *connection) all(ctx context.Context, path string, query url.Values, limit int) ([]json.RawMessage, error) {
	query.Set("limit", pageSize)
	var list []json.RawMessage
	for {
		var page struct {
			Data       []json.RawMessage `json:"data"`
			NextCursor *string           `json:"nextCursor"`
		}
		if _, err := c.Get(ctx, path, query, &page); err != nil {
			return nil, err
		}
		list = append(list, page.Data...)
		if len(list) >= limit || page.NextCursor == nil {
			return list[:min(limit, len(list))], nil
		}
		query.Set("cursor", *page.NextCursor)
	}
}

// entries decodes the entries of a list.
func entries[T any](list []json.RawMessage) ([]T, error) {
	out := make([]T, len(list))
	for i, raw := range list {
		if err := json.Unmarshal(raw, &out[i]); err != nil {
			return nil, fmt.Errorf("reading a list: %w", err)
		}
	}
	return out, nil
}

// agentID returns the ID of the agent with the given ID or name. It returns an error if several
// agents have the name.
func (c *connection) agentID(ctx context.Context, named string) (string, error) {
	if strings.HasPrefix(named, "ag_") || strings.HasPrefix(named, "tpl_") {
		return named, nil
	}
	found, err := c.named(ctx, "/api/agents", url.Values{"q": {named}}, named)
	if err == nil && found == "" {
		err = exit(ExitRefused, "no agent is named %q: see parley agents list", named)
	}
	return found, err
}

// named returns the ID of the entry with the given name in a list, ignoring case. It examines at
// most 100 entries. It returns "" if no entry has the name, and an error if several entries have
// it.
func (c *connection) named(ctx context.Context, path string, query url.Values, name string) (string, error) {
	list, err := c.all(ctx, path, query, 100)
	if err != nil {
		return "", err
	}

	entries, err := entries[struct{ ID, Name string }](list)
	if err != nil {
		return "", err
	}

	var found []string
	for _, e := range entries {
		if strings.EqualFold(e.Name, name) {
			found = append(found, e.ID)
		}
	}

	if len(found) > 1 {
		return "", exit(ExitArguments, "%d agents or templates are named %q: use an ID: %s", len(found), name, strings.Join(found, ", "))
	}
	return strings.Join(found, ""), nil
}

// describeNotFound replaces a not-found error with one that names the missing resource. It returns
// other errors unchanged. The service does not distinguish resources that do not exist from those
// that the key may not see.
func describeNotFound(err error, what, id string) error {
	if problem, is := errors.AsType[*parley.APIError](err); is && problem.Code == "not_found" {
		return fmt.Errorf("no %s %q is visible to this key: %w", what, id, err)
	}
	return err
}

// printAll requests all pages of a list and prints it: as one JSON array, or as a table with a header
// and a row for each entry. An empty list is [] in JSON.
func printAll[T any](
	ctx context.Context, con *console.Console, s *Service, path string, query url.Values, header []string, row func(T) []string,
) error {
	service, err := s.connect(usual)
	if err != nil {
		return err
	}
	list, err := service.all(ctx, path, query, math.MaxInt)
	if err != nil {
		return s.explain(err)
	}
	if s.JSON {
		return con.JSON(append([]json.RawMessage{}, list...))
	}

	found, err := entries[T](list)
	if err != nil {
		return err
	}
	rows := [][]string{header}
	for _, entry := range found {
		rows = append(rows, row(entry))
	}
	return table(con, rows)
}

// isGone reports whether an error means that the resource does not exist or no longer exists.
func isGone(err error) bool {
	problem, is := errors.AsType[*parley.APIError](err)
	return is && (problem.Code == "not_found" || problem.Code == "erased")
}
