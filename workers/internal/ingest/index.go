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
	eventsAhead  = 256 // maximum number of events that the reader has sent and the indexer has not processed
	batchesAhead = 2   // maximum number of batches that the indexer has sent and no writer has taken
	embedders    = 4   // number of concurrent writers if vectors are computed; these writers mostly wait for the embeddings service
)

// batch contains passages that are written together, and the reader's progress when the batch was
// made.
type batch struct {
	// The passages, in the order of the document's text.
	chunks []knowledgedb.NewChunk
	// number of the document's pages, or nil if it is unknown
	pages *int
	// number of pages read so far
	done int
}

// pipeline reads, indexes and writes one document.
type pipeline struct {
	*Ingester
	*work
	events  chan document.Event
	batches chan batch
	cancel  context.CancelCauseFunc
	info    document.Info // information that the reader has found; set before the channel events is closed

	mu   sync.Mutex
	done int // number of pages stored as done
}

// index reads a document and, at the same time, writes its passages to the index. It returns
// information about the document, and the document's language.
func (i *Ingester) index(ctx context.Context, w *work, from Source) (document.Info, string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := &pipeline{
		Ingester: i, work: w, cancel: cancel,
		events: make(chan document.Event, eventsAhead), batches: make(chan batch, batchesAhead),
	}

	// The stages run concurrently and are connected by channels. The first error or panic of any
	// stage cancels all stages.
	x := newIndexer(w.Document.Name)
	var stages sync.WaitGroup
	stage := func(run func() error) {
		stages.Go(func() {
			defer func() {
				if cause := recover(); cause != nil {
					cancel(panicError(w.log, cause))
				}
			}()
			if err := run(); err != nil {
				cancel(err)
			}
		})
	}

	stage(func() error { return p.read(ctx, from) })
	stage(func() error { return p.cut(ctx, x) })

	// If no vectors are computed, one writer is enough, because it does not wait for the embeddings
	// service.
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

	// All stages have ended, so their results can be read without a lock.
	w.terms = x.terms
	return p.info, x.language, nil
}

// read runs the extractor and forwards its events.
func (p *pipeline) read(ctx context.Context, from Source) error {
	defer close(p.events)
	info, err := p.deps.Extractor.Read(ctx, from, func(e document.Event) error {
		// If the indexer is slow, this send blocks. The reader in the sandbox then also waits.
		select {
		case p.events <- e:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	// Set p.info before closing p.events, because p.last reads p.info after the close.
	p.info = info
	return err
}

// cut divides the document's events into batches. A batch is sent when it is full or when batchTime
// has passed.
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
			// The channel is closed at the end of the document and also if the reader fails. p.last
			// distinguishes these cases.
			if !open {
				return p.last(ctx, x)
			}
			x.take(e)
		case <-tick.C:
			late = true
		}

		// The progress of a document that is read slowly must be visible, so a batch is sent after
		// batchTime even if it is not full.
		for x.due(late) {
			if err := p.send(ctx, x.batch()); err != nil {
				return err
			}
		}
	}
}

// last sends the remaining batches at the end of the document.
func (p *pipeline) last(ctx context.Context, x *indexer) error {
	if ctx.Err() != nil { // a stage has failed or the attempt was cancelled, so the text may be incomplete
		return context.Cause(ctx)
	}
	for x.close(p.info); x.left(); {
		if err := p.send(ctx, x.batch()); err != nil {
			return err
		}
	}
	return nil
}

// send passes a batch to the writers.
func (p *pipeline) send(ctx context.Context, b batch) error {
	select {
	case p.batches <- b:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// write writes batches, with vectors if there is an embedder.
func (p *pipeline) write(ctx context.Context) error {
	for b := range p.batches {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// Compute the vectors without the lock, so that several writers can compute vectors at the
		// same time.
		if err := p.embed(ctx, b.chunks); err != nil {
			return err
		}
		if err := p.add(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// embed sets the vectors of passages. The vector of a passage is computed from the text that
// withHeadings returns.
func (p *pipeline) embed(ctx context.Context, chunks []knowledgedb.NewChunk) error {
	if p.deps.Embedder == nil || len(chunks) == 0 {
		return nil
	}
	texts := make([]string, len(chunks))
	for n, c := range chunks {
		texts[n] = p.withHeadings(c)
	}

	// The embedder divides the texts into requests of a suitable size.
	vectors, err := p.deps.Embedder.Embed(ctx, texts)
	if why, is := errors.AsType[*llm.Error](err); is {
		return &document.Failure{Code: document.NoEmbeddings, Message: "No embeddings: " + why.Error(), Retry: why.Retryable}
	}
	if err != nil {
		return err
	}

	// With fewer or more vectors than texts, a passage could get the vector of another passage.
	if len(vectors) != len(chunks) {
		return errVectors
	}
	for n := range chunks {
		chunks[n].Vector = vectors[n]
	}
	return nil
}

// withHeadings returns the text from which a passage's vector is computed. It consists of the
// document's name, the headings and the passage itself. The last heading is omitted if the passage
// begins with it.
func (p *pipeline) withHeadings(c knowledgedb.NewChunk) string {
	// The headings and the document's name provide context that a short passage lacks.
	above := append([]string{wordsFor(p.Document.Name)}, c.Headings...)
	if last := above[len(above)-1]; len(above) > 1 && strings.HasPrefix(c.Text, last) {
		above = above[:len(above)-1]
	}
	return strings.Join(append(above, c.Text), "\n")
}

// errVectors is an internal error, because the embedder should already have checked the number of
// vectors.
var errVectors = errors.New("the embeddings service returned the wrong number of vectors")

// add writes one batch. It holds a lock during the write, so that the stored progress never
// decreases.
func (p *pipeline) add(ctx context.Context, b batch) error {
	p.mu.Lock()
	defer p.mu.Unlock()

	// Several writers compute vectors, so batches may arrive out of order.
	p.done = max(p.done, b.done)
	err := fenced(ctx, func() (bool, error) {
		return p.deps.Index.AddChunks(ctx, p.LeasedDocument, b.chunks, p.model(), b.pages, p.done)
	})
	if err == nil {
		p.chunks += len(b.chunks)
		p.changed(p.work)
	}
	return err
}
