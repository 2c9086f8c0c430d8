package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/parley"
	search "parley/scripts/bench/internal/retrieval"
	"parley/shared/lifecycle"
)

// retrieval compares the quality and latency of searches to PostgreSQL's ts_rank on the same
// passages.
type retrieval struct {
	Sections  int `default:"2000" help:"Sections of Go's documentation, at least."`
	Questions int `default:"400" help:"Questions, each about another section."`
	Passages  int `default:"100000" help:"Passages among which latency is measured: copies of the documents, each as one document."`
}

const (
	questionSeed  = 6
	warmSearches  = 20 // unmeasured searches of each side
	ingestTimeout = 20 * time.Minute
	chunks        = `SELECT count(*) FROM document_chunks`
)

// Name is the name of the load.
func (*retrieval) Name() string { return "retrieval" }

// Measure queries a deployment without embeddings and one with embeddings. The stub's vectors are
// hashed parts of words without meaning, so hybrid search shows the cost of its machinery, not the
// gain of a language model.
func (r *retrieval) Measure(ctx context.Context, s *loadEnv) error {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("looking for Go's sources: %w", err)
	}

	corpus := &corpus{loadEnv: s}
	corpus.documents, err = search.Gather(filepath.Join(strings.TrimSpace(string(root)), "src"), r.Sections)
	if err != nil {
		return err
	}

	corpus.questions = search.Ask(corpus.documents, r.Questions, questionSeed)
	if len(corpus.questions) < r.Questions {
		return fmt.Errorf("only %d questions can be made", len(corpus.questions))
	}
	if err := r.lexical(ctx, corpus); err != nil {
		return err
	}

	provider, err := s.model(ctx, 0)
	if err != nil {
		return err
	}

	settings := map[string]string{"EMBEDDINGS_MODEL": "openai/hashed"}
	maps.Copy(settings, provider.Settings())
	p, _, err := corpus.start(ctx, "hybrid", settings)
	if err != nil {
		return err
	}
	return corpus.quality(ctx, "hybrid", searcher(p))
}

// corpus is the documents and the questions.
type corpus struct {
	loadEnv   *loadEnv
	documents []search.Document
	questions []search.Question
	plain     search.Ranks // of PostgreSQL's own search
}

// lexical measures quality, and then latency with more copies of the documents.
func (r *retrieval) lexical(ctx context.Context, c *corpus) (err error) {
	p, dsn, err := c.start(ctx, "lexical", nil)
	if err != nil {
		return err
	}

	plain, err := search.OpenPlain(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plain.Close()) }()
	if c.plain, err = c.ask(ctx, plain.Search); err != nil {
		return err
	}
	if err := c.quality(ctx, "lexical", searcher(p)); err != nil {
		return err
	}

	var all search.Document
	for _, document := range c.documents {
		all.Sections = append(all.Sections, document.Sections...)
	}

	for n := 1; ; n++ {
		passages, err := count(ctx, dsn, chunks)
		if err != nil {
			return err
		}
		if passages >= int64(r.Passages) {
			break
		}
		all.Name = fmt.Sprintf("copy %d", n)
		if err := c.fill(ctx, p, []search.Document{all}); err != nil {
			return err
		}
	}

	many, err := search.OpenPlain(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, many.Close()) }()
	return errors.Join(c.latency(ctx, dsn, many, searcher(p)), p.Stop()) // the next deployment uses the same nats-server
}

// start starts a deployment and fills it.
func (c *corpus) start(ctx context.Context, name string, settings map[string]string) (*parley.Parley, string, error) {
	p, dsn, err := c.loadEnv.parley(ctx, name, parley.Config{Roles: "agent,tool,ingest,sweep", Settings: settings})
	if err != nil {
		return nil, "", err
	}
	return p, dsn, c.fill(ctx, p, c.documents)
}

// fill uploads documents and waits until they are searchable.
func (*corpus) fill(ctx context.Context, p *parley.Parley, documents []search.Document) error {
	ctx, cancel := context.WithTimeout(ctx, ingestTimeout)
	defer cancel()

	began := time.Now()
	var ids []string
	for _, document := range documents {
		id, err := p.Upload(ctx, document.Name+".html", document.HTML())
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}

	for _, id := range ids {
		var got struct {
			Status string          `json:"status"`
			Error  json.RawMessage `json:"error"`
		}
		for got.Status != "ready" {
			if err := p.Ask(ctx, p.Get("/api/knowledge", url.Values{"id": {id}}), &got); err != nil {
				return err
			}
			if got.Status == "failed" {
				return fmt.Errorf("ingesting a document: %s", got.Error)
			}
			if got.Status != "ready" {
				if err := lifecycle.Sleep(ctx, 20*time.Millisecond); err != nil {
					return fmt.Errorf("a document is %s: %w", got.Status, err)
				}
			}
		}
	}

	progressf("retrieval: %d documents are ready after %s", len(ids), time.Since(began).Round(time.Second))
	return nil
}

// searchFunc returns the passages for a question, best first.
type searchFunc func(ctx context.Context, question string) ([]search.Passage, error)

// searcher searches over HTTP.
func searcher(p *parley.Parley) searchFunc {
	return func(ctx context.Context, question string) ([]search.Passage, error) {
		var got struct {
			Data []struct {
				Name string `json:"name"`
				Text string `json:"text"`
			} `json:"data"`
			Without []string `json:"without"`
		}
		if err := p.Ask(ctx, p.Get("/api/knowledge", url.Values{"limit": {"10"}, "query": {question}}), &got); err != nil {
			return nil, err
		}
		if len(got.Without) > 0 {
			return nil, fmt.Errorf("the search was without %v", got.Without)
		}
		var found []search.Passage
		for _, passage := range got.Data {
			found = append(found, search.Passage{Document: search.DocumentName(passage.Name), Text: passage.Text})
		}
		return found, nil
	}
}

// ask asks all questions.
func (c *corpus) ask(ctx context.Context, find searchFunc) (out search.Ranks, err error) {
	sections := map[string][]search.Section{}
	for _, document := range c.documents {
		sections[document.Name] = document.Sections
	}
	for _, question := range c.questions {
		found, err := find(ctx, question.Text)
		if err != nil {
			return nil, fmt.Errorf("searching for %q: %w", question.Text, err)
		}
		out = append(out, search.Rank(found, question.Document, sections[question.Document][question.Section]))
	}
	return out, nil
}

// quality adds the recall of a side.
func (c *corpus) quality(ctx context.Context, name string, find searchFunc) error {
	ours, err := c.ask(ctx, find)
	if err != nil {
		return err
	}
	c.loadEnv.add(name, "recall@5", []float64{c.plain.Recall()}, []float64{ours.Recall()}, ratioAtLeast(1))
	return nil
}

// latency compares the time of searches with one indexed query.
func (c *corpus) latency(ctx context.Context, dsn string, plain *search.Plain, find searchFunc) error {
	passages, err := count(ctx, dsn, chunks)
	if err != nil {
		return err
	}

	bare, ours := load.NewLatencies(), load.NewLatencies()
	for n, question := range c.questions {
		for _, side := range []struct {
			find searchFunc
			took interface{ RecordValue(ns int64) error }
		}{{plain.Search, bare}, {find, ours}} {
			began := time.Now()
			if _, err := side.find(ctx, question.Text); err != nil {
				return fmt.Errorf("searching for %q: %w", question.Text, err)
			}
			if n >= warmSearches {
				_ = side.took.RecordValue(time.Since(began).Nanoseconds()) // requests time out before the histogram's limit
			}
		}
	}

	name := fmt.Sprintf("lexical, %d passages", passages)
	c.loadEnv.add(name, "p50 ms", []float64{load.Millis(bare, 50)}, []float64{load.Millis(ours, 50)}, nil)
	c.loadEnv.add(name, "p99 ms", []float64{load.Millis(bare, 99)}, []float64{load.Millis(ours, 99)}, ratioAtMost(2))
	return nil
}
