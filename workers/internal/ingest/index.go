package ingest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"parley/shared/store/knowledgedb"
	"parley/workers/internal/document"
	"parley/workers/internal/llm"
)

const (
	eventsAhead  = 256 // that the reader may be ahead of the indexer
	batchesAhead = 2   // that the indexer may be ahead of the writers
	embedders    = 4   // batches at a time, where vectors are asked for: it is waiting, mostly
)

// batch is what is written at a time: passages, and how far the reading is.
type batch struct {
	chunks []knowledgedb.NewChunk
	pages  *int
	done   int
}

// pipeline reads, indexes and writes one document.
type pipeline struct {
	*Ingester
	*work
	events  chan document.Event
	batches chan batch
	cancel  context.CancelCauseFunc
	info    document.Info // of the reader; known once events is closed

	mu   sync.Mutex
	done int // pages that were told to be done
}

// index writes everything of a document into the index, while it is being read, and gives what is known of it and its language.
func (i *Ingester) index(ctx context.Context, w *work, from Source) (document.Info, string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := &pipeline{
		Ingester: i, work: w, cancel: cancel,
		events: make(chan document.Event, eventsAhead), batches: make(chan batch, batchesAhead),
	}
	x := newIndexer(w.Document.Name)
	var stages sync.WaitGroup
	stage := func(run func() error) {
		stages.Go(func() {
			defer func() {
				if cause := recover(); cause != nil {
					cancel(rescue(w.log, cause))
				}
			}()
			if err := run(); err != nil {
				cancel(err)
			}
		})
	}
	stage(func() error { return p.read(ctx, from) })
	stage(func() error { return p.cut(ctx, x) })
	writers := 1
	if i.deps.Embedder != nil {
		writers = embedders
	}
	for range writers {
		stage(func() error { return p.write(ctx) })
	}
	stages.Wait()
	if err := context.Cause(ctx); err != nil {
		return p.info, "", err
	}
	w.terms = x.terms
	return p.info, x.language, nil
}

// read has the document read, and hands on what is told of it.
func (p *pipeline) read(ctx context.Context, from Source) error {
	defer close(p.events)
	info, err := p.deps.Extractor.Read(ctx, from, func(e document.Event) error {
		select {
		case p.events <- e:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	p.info = info
	return err
}

// cut makes batches of what is read: as soon as there is enough for one, or some time has passed.
func (p *pipeline) cut(ctx context.Context, x *indexer) error {
	defer close(p.batches)
	tick := time.NewTicker(batchTime)
	defer tick.Stop()
	for {
		late := false
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case e, open := <-p.events:
			if !open {
				return p.last(ctx, x)
			}
			x.take(e)
		case <-tick.C:
			late = true
		}
		for x.due(late) {
			if err := p.send(ctx, x.batch()); err != nil {
				return err
			}
		}
	}
}

// last sends what is left at the document's end.
func (p *pipeline) last(ctx context.Context, x *indexer) error {
	if ctx.Err() != nil { // it has not ended: the reader failed
		return context.Cause(ctx)
	}
	for x.close(p.info); x.left(); {
		if err := p.send(ctx, x.batch()); err != nil {
			return err
		}
	}
	return nil
}

func (p *pipeline) send(ctx context.Context, b batch) error {
	select {
	case p.batches <- b:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// write writes batches, with vectors where there are any to be had.
func (p *pipeline) write(ctx context.Context) error {
	for b := range p.batches {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := p.embed(ctx, b.chunks); err != nil {
			return err
		}
		if err := p.add(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// embed gives passages their vectors: of their text, with what stands above it.
func (p *pipeline) embed(ctx context.Context, chunks []knowledgedb.NewChunk) error {
	if p.deps.Embedder == nil || len(chunks) == 0 {
		return nil
	}
	texts := make([]string, len(chunks))
	for n, c := range chunks {
		texts[n] = p.inContext(c)
	}
	vectors, err := p.deps.Embedder.Embed(ctx, texts)
	if why, is := errors.AsType[*llm.Error](err); is {
		return &document.Failure{Code: document.NoEmbeddings, Message: "No embeddings: " + why.Error(), Retry: why.Retryable}
	}
	if err != nil {
		return err
	}
	if len(vectors) != len(chunks) {
		return errVectors
	}
	for n := range chunks {
		chunks[n].Vector = vectors[n]
	}
	return nil
}

// inContext is a passage with what stands above it: the document's name and the headings, but for the one that it begins with.
func (p *pipeline) inContext(c knowledgedb.NewChunk) string {
	above := append([]string{wordsFor(p.Document.Name)}, c.Headings...)
	if last := above[len(above)-1]; len(above) > 1 && strings.HasPrefix(c.Text, last) {
		above = above[:len(above)-1]
	}
	return strings.Join(append(above, c.Text), "\n")
}

var errVectors = errors.New("the embeddings service returned a wrong number of vectors")

// add writes one batch, after those that other writers are writing: progress goes forward only.
func (p *pipeline) add(ctx context.Context, b batch) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = max(p.done, b.done)
	err := fenced(ctx, func() (bool, error) {
		return p.deps.Index.AddChunks(ctx, p.HeldDocument, b.chunks, p.model(), b.pages, p.done)
	})
	if err == nil {
		p.chunks += len(b.chunks)
		p.changed(p.work)
	}
	return err
}
