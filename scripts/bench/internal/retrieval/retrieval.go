package retrieval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/report"
)

const (
	readyTimeout = 20 * time.Minute
	pollEvery    = 20 * time.Millisecond
	seed         = 6
	man          = "/usr/share/man"
)

// Config says what to ask, and of whom.
type Config struct {
	Sections  int // of the corpus that can be asked about, at least
	Questions int
	// Start starts a service with these settings on a database of its own; its DSN comes with it.
	Start    func(ctx context.Context, name string, settings map[string]string) (*parley.Parley, string, error)
	Progress func(format string, args ...any)
}

// Plain and fused searches by Parley, and PostgreSQL's own ranking.
const (
	Lexical = "lexical"
	Hybrid  = "hybrid"
	AnyWord = "ts_rank, any word"
	AllWord = "ts_rank, all words"
)

type bench struct {
	Config

	documents []Document
	questions []Question
	byName    map[string]Document
	client    http.Client
	scores    map[string]map[string]scored // by side and kind
	passages  int
}

// Run asks every question of every side.
func Run(ctx context.Context, c Config) (*report.Retrieval, error) {
	b := &bench{Config: c, byName: map[string]Document{}, scores: map[string]map[string]scored{}}
	defer b.client.CloseIdleConnections()
	var err error
	if b.documents, err = Gather(os.DirFS(man), c.Sections); err != nil {
		return nil, err
	}
	for _, document := range b.documents {
		b.byName[document.Name] = document
	}
	if b.questions = Ask(b.documents, c.Questions, seed); len(b.questions) < c.Questions {
		return nil, fmt.Errorf("there are only %d sections to ask about", len(b.questions))
	}
	if err := b.lexical(ctx); err != nil {
		return nil, fmt.Errorf("searching by words: %w", err)
	}
	if err := b.hybrid(ctx); err != nil {
		return nil, fmt.Errorf("searching by words and vectors: %w", err)
	}
	return b.report(), nil
}

// lexical asks a service without embeddings, and PostgreSQL about the same passages in the same database.
func (b *bench) lexical(ctx context.Context) (err error) {
	service, dsn, err := b.Start(ctx, Lexical, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, service.Stop()) }()
	if err := b.fill(ctx, service); err != nil {
		return err
	}
	if err := b.ask(ctx, Lexical, b.search(service)); err != nil {
		return err
	}
	plain, err := openPlain(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plain.db.Close()) }()
	if b.passages, err = plain.count(ctx); err != nil {
		return err
	}
	for name, query := range map[string]string{AnyWord: anyWord, AllWord: allWords} {
		if err := b.ask(ctx, name, plain.search(query)); err != nil {
			return err
		}
	}
	return nil
}

// hybrid asks a service with the embeddings of this package.
func (b *bench) hybrid(ctx context.Context) (err error) {
	embeddings, err := serveEmbeddings(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, embeddings.close()) }()
	service, _, err := b.Start(ctx, Hybrid, map[string]string{
		"EMBEDDINGS_MODEL": "openai/hashed", "OPENAI_BASE_URL": embeddings.url, "OPENAI_API_KEY": "bench",
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, service.Stop()) }()
	if err := b.fill(ctx, service); err != nil {
		return err
	}
	if embeddings.asked.Load() == 0 {
		return errors.New("no embedding was asked for")
	}
	return b.ask(ctx, Hybrid, b.search(service))
}

// fill uploads the corpus and waits until it can be searched.
func (b *bench) fill(ctx context.Context, service *parley.Parley) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	began := time.Now()
	ids := make([]string, 0, len(b.documents))
	for _, document := range b.documents {
		request, err := service.Upload(document.Name+".html", document.HTML())
		if err != nil {
			return err
		}
		var made struct {
			ID string `json:"id"`
		}
		if err := service.Ask(ctx, &b.client, request, &made); err != nil {
			return fmt.Errorf("uploading %s: %w", document.Name, err)
		}
		ids = append(ids, made.ID)
	}
	for i, id := range ids {
		if err := b.ready(ctx, service, id); err != nil {
			return fmt.Errorf("%s: %w", b.documents[i].Name, err)
		}
	}
	b.Progress("%d manual pages are ready after %s", len(ids), time.Since(began).Round(time.Second))
	return nil
}

func (b *bench) ready(ctx context.Context, service *parley.Parley, id string) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		var got struct {
			Status string          `json:"status"`
			Error  json.RawMessage `json:"error"`
		}
		if err := service.Ask(ctx, &b.client, service.Document(id), &got); err != nil {
			return err
		}
		switch got.Status {
		case "ready":
			return nil
		case "failed":
			return fmt.Errorf("it failed: %s", got.Error)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("it is %s: %w", got.Status, context.Cause(ctx))
		}
	}
}

// searcher gives the best passages for a question, the best first.
type searcher func(ctx context.Context, question string) ([]Passage, error)

// ask asks a side every question.
func (b *bench) ask(ctx context.Context, side string, search searcher) error {
	b.scores[side] = map[string]scored{}
	for _, question := range b.questions {
		found, err := search(ctx, question.Text)
		if err != nil {
			return fmt.Errorf("asking %q: %w", question.Text, err)
		}
		at := rank(found, question.Document, b.byName[question.Document].Sections[question.Section])
		b.scores[side][question.Kind] = append(b.scores[side][question.Kind], at)
	}
	all := b.all(side).quality()
	b.Progress("%-18s recall@5 %.3f, nDCG@10 %.3f", side, all.Recall, all.NDCG)
	return nil
}

func (b *bench) all(side string) (all scored) {
	for _, kind := range kinds {
		all = append(all, b.scores[side][kind]...)
	}
	return all
}

// search asks over HTTP.
func (b *bench) search(service *parley.Parley) searcher {
	return func(ctx context.Context, question string) ([]Passage, error) {
		var got struct {
			Data []struct {
				Name string `json:"name"`
				Text string `json:"text"`
			} `json:"data"`
			Without []string `json:"without"`
		}
		if err := service.Ask(ctx, &b.client, service.Search(question), &got); err != nil {
			return nil, err
		}
		if len(got.Without) > 0 {
			return nil, fmt.Errorf("it was searched without %v", got.Without)
		}
		found := make([]Passage, 0, len(got.Data))
		for _, one := range got.Data {
			found = append(found, Passage{Document: pageOf(one.Name), Text: one.Text})
		}
		return found, nil
	}
}

func (b *bench) report() *report.Retrieval {
	out := &report.Retrieval{Documents: len(b.documents), Passages: b.passages, Questions: len(b.questions), Kinds: Kinds()}
	for _, document := range b.documents {
		out.Sections += len(document.Sections)
	}
	for _, name := range []string{AllWord, AnyWord, Lexical, Hybrid} {
		side := report.RetrievalSide{Name: name, All: figures(b.all(name))}
		for _, kind := range kinds {
			side.Kinds = append(side.Kinds, figures(b.scores[name][kind]))
		}
		out.Sides = append(out.Sides, side)
	}
	return out
}

func figures(s scored) report.Quality {
	q := s.quality()
	return report.Quality{Questions: q.Questions, Recall: q.Recall, NDCG: q.NDCG}
}
