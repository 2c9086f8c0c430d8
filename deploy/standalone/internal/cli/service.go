package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"parley/deploy/standalone/internal/client"
	"parley/deploy/standalone/internal/console"
	"parley/shared/lifecycle"
)

// Service says which service a command calls, and as whom. What it does not say stands in DATA_DIR's credentials.json, which
// parley up writes.
type Service struct {
	URL          string `name:"url" env:"PARLEY_BASE_URL" placeholder:"URL" help:"Address of the service. Default: the parley up of this DATA_DIR."`
	Key          string `name:"key" env:"PARLEY_API_KEY" placeholder:"KEY" help:"API key. Other users of the machine can see arguments, so prefer the variable. Default: the key of credentials.json, for its address only."`
	Organization string `name:"organization" env:"PARLEY_ORGANIZATION_ID" placeholder:"ID" help:"Organization to act in, for a user's key."`
	DataDir      string `name:"data-dir" env:"DATA_DIR" default:"./.data" placeholder:"PATH" help:"Where parley up keeps its data; default: ${default}."`
	JSON         bool   `name:"json" help:"Print JSON and no progress."`
}

// credentials are those that parley up keeps for scripts.
type credentials struct {
	BaseURL string `json:"baseUrl"`
	APIKey  string `json:"apiKey"`
	AgentID string `json:"agentId"`
}

// connection is a service that is called.
type connection struct {
	*client.Client
	url   string
	agent string // the demo agent; empty when the service is not that of credentials.json
}

// manners say how a command calls.
type manners struct {
	dials    int // to a service that was not reached yet; 0: as retries
	retries  int
	patience time.Duration
	demo     bool
	waiting  func(error, time.Duration)
}

var usual = manners{dials: 2, retries: 2, patience: 10 * time.Second}

// connect completes the settings; nothing is called yet.
func (s *Service) connect(how manners) (*connection, error) {
	known, err := s.known()
	if err != nil {
		return nil, err
	}
	at, key, agent := s.URL, s.Key, ""
	if at == "" {
		at = known.BaseURL
	}
	if at == "" {
		return nil, exit(ExitFailure, "no parley has run with the data directory %s: start one with `parley up`, or give an address with --url", s.DataDir)
	}
	if strings.TrimRight(at, "/") == strings.TrimRight(known.BaseURL, "/") {
		agent = known.AgentID
		if key == "" {
			key = known.APIKey // this key goes to this address and to no other
		}
	}
	if key == "" && !how.demo {
		return nil, exit(ExitArguments, "no API key for %s: set PARLEY_API_KEY or --key", client.Bare(at))
	}
	c, err := client.New(client.Options{
		BaseURL: at, Key: key, Organization: s.Organization, Demo: how.demo,
		Dials: how.dials, Retries: how.retries, Patience: how.patience, Waiting: how.waiting,
	})
	if err != nil {
		return nil, &coded{ExitArguments, err}
	}
	return &connection{Client: c, url: at, agent: agent}, nil
}

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

// explain adds what helps to an error of the service.
func (s *Service) explain(err error) error {
	if _, is := errors.AsType[*lifecycle.SignalError](err); is {
		if _, said := errors.AsType[*left](err); !said {
			return &left{cause: err}
		}
		return err
	}
	if !errors.Is(err, client.ErrAway) || errors.Is(err, context.Canceled) {
		return err
	}
	if s.URL != "" {
		return fmt.Errorf("%w\nTo run it on this machine: parley up", err)
	}
	command := "parley up"
	if s.DataDir != "" && s.DataDir != "./.data" {
		command += " --data-dir " + s.DataDir
	}
	return fmt.Errorf("%w\nStart it with: %s   (or give another address with --url)", err, command)
}

const pageSize = "100"

// all gives the first most entries of a list, page by page, as the service wrote them.
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

// entries decodes a list's entries.
func entries[T any](list []json.RawMessage) ([]T, error) {
	out := make([]T, len(list))
	for i, raw := range list {
		if err := json.Unmarshal(raw, &out[i]); err != nil {
			return nil, fmt.Errorf("reading a list: %w", err)
		}
	}
	return out, nil
}

// agentID gives the id of the agent that was named, by its id or by its name, which must be one agent's only.
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

// named gives the id of the one entry of a list that has this name; none when there is none.
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
		return "", exit(ExitArguments, "%d agents or templates are named %q: use an id: %s", len(found), name, strings.Join(found, ", "))
	}
	return strings.Join(found, ""), nil
}

// sought says what was looked for in vain.
func sought(err error, what, id string) error {
	if problem, is := errors.AsType[*client.ProblemError](err); is && problem.Code == "not_found" {
		return fmt.Errorf("no %s %q that the key may see: %w", what, id, err)
	}
	return err
}

// printList prints a list as one JSON array.
func printList(con *console.Console, list []json.RawMessage) error {
	if list == nil {
		list = []json.RawMessage{}
	}
	return con.JSON(list)
}

// gone reports whether there is nothing by an id any more.
func gone(err error) bool {
	problem, is := errors.AsType[*client.ProblemError](err)
	return is && (problem.Code == "not_found" || problem.Code == "erased")
}
