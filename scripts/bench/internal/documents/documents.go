package documents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"time"

	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/report"
	"parley/shared/testkit/pdf"
)

// ErrNoPoppler says that this machine cannot be measured.
var ErrNoPoppler = errors.New("pdftotext is not installed")

const (
	readyTimeout = 10 * time.Minute
	pollEvery    = 10 * time.Millisecond
)

// Config says what to measure.
type Config struct {
	Parley      *parley.Parley
	DatabaseURL string
	Pages       int    // of a document
	File        string // a PDF to ingest; "": one of plain text is made
	Rounds      int    // documents, each side's in turn
	Passages    int    // to search among, at least
	Searches    int    // of each side
	Progress    func(format string, args ...any)
}

type bench struct {
	Config

	poppler string
	client  http.Client
}

// Run measures both.
func Run(ctx context.Context, c Config) (*report.Documents, error) {
	b := &bench{Config: c}
	var err error
	if b.poppler, err = exec.LookPath("pdftotext"); err != nil {
		return nil, ErrNoPoppler
	}
	defer b.client.CloseIdleConnections()
	out := &report.Documents{Pages: c.Pages, Rounds: c.Rounds, Searches: c.Searches}
	if err := b.ingest(ctx, out); err != nil {
		return nil, fmt.Errorf("measuring ingestion: %w", err)
	}
	if err := b.search(ctx, out); err != nil {
		return nil, fmt.Errorf("measuring searches: %w", err)
	}
	out.Compare()
	return out, nil
}

// ingest has documents read by pdftotext alone and by Parley in turn.
func (b *bench) ingest(ctx context.Context, out *report.Documents) error {
	for round := range b.Rounds + 1 { // the first warms up
		content, err := b.document(round)
		if err != nil {
			return err
		}
		plain, err := b.pdftotext(ctx, content)
		if err != nil {
			return err
		}
		placed, err := b.pdftotext(ctx, content, "-bbox-layout")
		if err != nil {
			return err
		}
		began := time.Now()
		got, err := b.ready(ctx, fmt.Sprintf("bench-%d.pdf", round), content)
		if err != nil {
			return err
		}
		took := time.Since(began)
		if b.File != "" {
			b.Pages, out.Pages = got.Pages, got.Pages
		}
		if got.Pages != b.Pages {
			return fmt.Errorf("the document has %d pages, not %d", got.Pages, b.Pages)
		}
		if round == 0 {
			continue
		}
		perSecond := func(d time.Duration) float64 { return float64(b.Pages) / d.Seconds() }
		out.Plain.Rounds = append(out.Plain.Rounds, perSecond(plain))
		out.Placed.Rounds = append(out.Placed.Rounds, perSecond(placed))
		out.Ingested.Rounds = append(out.Ingested.Rounds, perSecond(took))
		b.Progress("ingestion, round %d of %d: pdftotext %.0f pages/s, with places %.0f, Parley %.0f",
			round, b.Rounds, perSecond(plain), perSecond(placed), perSecond(took))
	}
	return nil
}

// document is another document for each round: the same bytes would be the same document.
func (b *bench) document(round int) ([]byte, error) {
	if b.File == "" {
		return document(uint64(round), b.Pages), nil
	}
	content, err := os.ReadFile(b.File)
	if err != nil {
		return nil, fmt.Errorf("reading the document: %w", err)
	}
	return fmt.Appendf(content, "%%%% round %d\n", round), nil
}

// document is a PDF of so many pages, each with a heading and some 500 words.
func document(seed uint64, pages int) []byte {
	w := newWriter(seed)
	all := make([]pdf.Page, pages)
	for i := range all {
		all[i] = pdf.Page{Heading: w.word() + " " + w.word(), Paragraphs: []string{w.paragraph(), w.paragraph(), w.paragraph()}}
	}
	return pdf.Write(all...)
}

// pdftotext gives the time that it takes alone.
func (b *bench) pdftotext(ctx context.Context, content []byte, options ...string) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, b.poppler, append(options, "-", "-")...)
	cmd.Stdin = bytes.NewReader(content)
	began := time.Now()
	if out, err := cmd.Output(); err != nil || len(out) == 0 {
		return 0, fmt.Errorf("running pdftotext: %d bytes, %w", len(out), err)
	}
	return time.Since(began), nil
}

type state struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Pages  int    `json:"pages"`
	Chunks int    `json:"chunks"`
	Error  any    `json:"error"`
}

// ready uploads a document and waits until it is.
func (b *bench) ready(ctx context.Context, name string, content []byte) (state, error) {
	var got state
	request, err := b.Parley.Upload(name, content)
	if err != nil {
		return got, err
	}
	if err := b.Parley.Ask(ctx, &b.client, request, &got); err != nil {
		return got, err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for got.Status != "ready" {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return got, fmt.Errorf("%s is %s: %w", name, got.Status, context.Cause(ctx))
		}
		if err := b.Parley.Ask(ctx, &b.client, b.Parley.Document(got.ID), &got); err != nil {
			return got, err
		}
		if got.Status == "failed" {
			return got, fmt.Errorf("%s failed: %v", name, got.Error)
		}
	}
	return got, nil
}
