package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/parley"
	sdk "parley/sdk/go"
)

// searches compares the quality and latency of Parley's search with PostgreSQL's ts_rank on the
// same passages.
type searches struct {
	Questions int `default:"2" help:"Number of questions about each section of docs."`
	Passages  int `default:"100000" help:"Number of stored passages when latency is measured. They are copies of the documents."`
}

// These constants are the parameters of the questions and of their measurement. chunks is the SQL
// query that counts the passages.
const (
	questionSeed = 6
	recallDepth  = 5  // a question counts as answered if its right answer is among this number of best passages
	warmSearches = 20 // number of unmeasured searches that each side makes first
	chunks       = `SELECT count(*) FROM document_chunks`
)

// searchFunc returns the texts of the passages that it finds for a question, the best one first.
type searchFunc func(ctx context.Context, question string) ([]string, error)

// Measure measures recall first. Then it adds copies of the documents and measures latency.
func (r *searches) Measure(ctx context.Context, s *loadEnv) error {
	docs, err := parley.Directory(ctx, "parley/docs")
	if err != nil {
		return err
	}
	documents, err := readDocuments(docs)
	if err != nil {
		return err
	}
	questions := ask(documents, r.Questions, questionSeed)
	p, dsn, err := s.parley(ctx, "parley", parley.Config{Roles: "agent,tool,ingest,sweep"})
	if err != nil {
		return err
	}
	if err := upload(ctx, p, documents...); err != nil {
		return errors.Join(err, p.Err())
	}
	few, err := compareSearches(ctx, dsn, questions, searcher(p))
	if err != nil {
		return err
	}
	passages, err := fillPassages(ctx, p, dsn, documents, int64(r.Passages))
	if err != nil {
		return err
	}
	many, err := compareSearches(ctx, dsn, questions, searcher(p))
	if err != nil {
		return err
	}

	s.add("docs", "recall@5", few[0]["recall@5"], few[1]["recall@5"], ratioAtLeast(1))
	name := fmt.Sprintf("%d passages", passages)
	s.add(name, "p50 ms", many[0]["p50 ms"], many[1]["p50 ms"], nil)
	s.add(name, "p99 ms", many[0]["p99 ms"], many[1]["p99 ms"], ratioAtMost(2))
	return nil
}

// fillPassages uploads copies of all documents until there are enough passages. Each copy is one
// document with its own title, because Parley stores equal documents once.
func fillPassages(ctx context.Context, p *parley.Parley, dsn string, documents []document, enough int64) (int64, error) {
	for n := 1; ; n++ {
		passages, err := count(ctx, dsn, chunks)
		if err != nil || passages >= enough {
			return passages, err
		}
		copied := document{Name: fmt.Sprintf("copy-%d.md", n), Text: fmt.Appendf(nil, "# Copy %d\n\n", n)}
		for _, d := range documents {
			copied.Text = append(copied.Text, d.Text...)
		}
		if err := upload(ctx, p, copied); err != nil {
			return 0, err
		}
		if n%50 == 0 {
			progressf("search: %d of %d passages are stored", passages, enough)
		}
	}
}

// upload uploads documents and waits until they are searchable.
func upload(ctx context.Context, p *parley.Parley, documents ...document) error {
	var ids []string
	for _, d := range documents {
		uploaded, err := p.Knowledge.Upload(ctx, d.Name, bytes.NewReader(d.Text), nil)
		if err != nil {
			return err
		}
		ids = append(ids, uploaded.ID)
	}
	for _, id := range ids {
		if err := p.AwaitReady(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// searcher returns a function that searches through Parley's HTTP API.
func searcher(p *parley.Parley) searchFunc {
	return func(ctx context.Context, question string) (texts []string, err error) {
		got, err := p.Knowledge.Search(ctx, sdk.SearchQuery{Query: question, Limit: 10})
		if err != nil {
			return nil, errors.Join(err, p.Err())
		}
		for _, passage := range got.Data {
			texts = append(texts, passage.Text)
		}
		return texts, nil
	}
}

// compareSearches asks both sides all questions, the floor first. It returns the measured values of
// both sides.
func compareSearches(
	ctx context.Context, dsn string, questions []question, ours searchFunc,
) (out [2]map[string][]float64, err error) {
	db, plain, err := openPlain(ctx, dsn)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	for i, find := range []searchFunc{plain, ours} {
		took, answered := load.NewLatencies(), 0.0
		for n, question := range questions {
			began := time.Now()
			texts, err := find(ctx, question.Text)
			if err != nil {
				return out, fmt.Errorf("searching for %q: %w", question.Text, err)
			}
			if n >= warmSearches {
				_ = took.RecordValue(time.Since(began).Nanoseconds()) // no error: requests time out before the histogram's limit
			}
			if slices.ContainsFunc(texts[:min(recallDepth, len(texts))], question.answeredBy) {
				answered++
			}
		}
		out[i] = map[string][]float64{
			"recall@5": {answered / float64(len(questions))}, "p50 ms": {load.Millis(took, 50)}, "p99 ms": {load.Millis(took, 99)},
		}
	}
	return out, nil
}
