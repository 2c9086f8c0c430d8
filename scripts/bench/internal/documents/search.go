package documents

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	_ "github.com/lib/pq" // the driver of the bare query

	"parley/scripts/bench/internal/report"
)

const (
	uploadSize    = 8 << 20 // bytes of a document of those that are searched, at most
	paragraphSize = 900
	warmUp        = 20 // searches of each side
)

// search fills an organization with passages, and asks for the same words in turn.
func (b *bench) search(ctx context.Context, out *report.Documents) error {
	questions, err := b.fill(ctx, out)
	if err != nil {
		return err
	}
	db, err := sqlx.ConnectContext(ctx, "postgres", b.DatabaseURL)
	if err != nil {
		return fmt.Errorf("connecting to database: %w", err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if err := bare(ctx, db); err != nil {
		return err
	}
	for n, q := range questions {
		for side, ask := range map[*report.Took]func(context.Context, string) error{
			&out.Ours: b.found, &out.Bare: bareQuery(db, " | "), &out.BareAll: bareQuery(db, " & "),
		} {
			began := time.Now()
			if err := ask(ctx, q); err != nil {
				return fmt.Errorf("searching for %q: %w", q, err)
			}
			if n >= warmUp {
				side.Each = append(side.Each, time.Since(began))
			}
		}
	}
	for _, side := range []*report.Took{&out.Ours, &out.Bare, &out.BareAll} {
		side.Compare()
	}
	b.Progress("searches among %d passages: bare query p50 %.1f ms, p99 %.1f ms; Parley p50 %.1f ms, p99 %.1f ms",
		out.Passages, out.Bare.P50, out.Bare.P99, out.Ours.P50, out.Ours.P99)
	return nil
}

// fill uploads text until there are passages enough, and gives questions about parts of it.
func (b *bench) fill(ctx context.Context, out *report.Documents) (questions []string, err error) {
	began := time.Now()
	var characters int
	for n := uint64(0); out.Passages < b.Passages; n++ {
		w := newWriter(1000 + n)
		var text strings.Builder
		for paragraphs := 0; text.Len() < min(uploadSize, b.Passages*paragraphSize); paragraphs++ {
			paragraph := w.paragraph()
			text.WriteString(paragraph + "\n\n")
			if paragraphs%3 == 0 && len(questions) < b.Searches+warmUp {
				questions = append(questions, w.question(paragraph))
			}
		}
		got, err := b.ready(ctx, fmt.Sprintf("text-%d.txt", n), []byte(text.String()))
		if err != nil {
			return nil, err
		}
		out.Passages += got.Chunks
		characters += text.Len()
	}
	took := time.Since(began)
	b.Progress("%d passages of %d MB of text are ready after %s", out.Passages, characters>>20, took.Round(time.Second))
	if len(questions) < b.Searches+warmUp {
		return nil, errors.New("there are fewer questions than searches")
	}
	return questions, nil
}

// bare makes what is searched by one indexed query: the same passages, as PostgreSQL itself indexes them.
func bare(ctx context.Context, db *sqlx.DB) error {
	for _, statement := range []string{
		`CREATE TABLE bare AS SELECT id, org_id, to_tsvector('simple', text) AS terms FROM document_chunks`,
		`CREATE INDEX ON bare USING gin (terms)`, `VACUUM ANALYZE bare`, `VACUUM ANALYZE document_chunks`,
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("preparing bare query: %w", err)
		}
	}
	return nil
}

// bareQuery is the query, of passages with any of the words or with all.
func bareQuery(db *sqlx.DB, joined string) func(ctx context.Context, question string) error {
	return func(ctx context.Context, question string) error {
		var ids []int64
		return db.SelectContext(ctx, &ids, `SELECT id FROM bare, to_tsquery('simple', $1) q
			WHERE terms @@ q AND org_id <> '' ORDER BY ts_rank(terms, q) DESC LIMIT 10`, strings.Join(strings.Fields(question), joined))
	}
}

// found asks Parley, over HTTP.
func (b *bench) found(ctx context.Context, question string) error {
	var got struct {
		Data []struct {
			Text string `json:"text"`
		} `json:"data"`
	}
	if err := b.Parley.Ask(ctx, &b.client, b.Parley.Search(question), &got); err != nil {
		return err
	}
	if len(got.Data) == 0 {
		return errors.New("nothing was found")
	}
	return nil
}
