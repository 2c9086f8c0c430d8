package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/lifecycle"
	"parley/shared/store/knowledgedb"
	"parley/shared/store/pg"
	"parley/shared/store/sealdb"
	"parley/workers/internal/document"
)

const (
	// MaxDocumentBytes is the maximum size of a document.
	MaxDocumentBytes = 20 << 20

	writeRetryTime  = time.Minute // time for which a write is retried while the database is unavailable
	writeRetryDelay = 250 * time.Millisecond

	// The delay after the first attempt, the factor by which it grows with each attempt, and its
	// maximum.
	backoffFirst  = time.Second
	backoffFactor = 3
	maxBackoff    = 15 * time.Minute
)

// work is one attempt at a document.
type work struct {
	knowledgedb.ClaimedDocument
	requestedAt time.Time // time of the claim, or shortly before it
	last        bool      // true if the document occupies the last free slot
	short       bool      // true if the document occupies a slot of the short lane

	log    zerolog.Logger
	began  time.Time
	turn   *turn
	chunks int // number of chunks written so far; read only after the writers have finished
	terms  knowledgedb.TermCounts
}

// execute runs one attempt at a document and records its outcome. left is true if the document was
// requeued because it had to leave its slot: the last free slot after lastSlotTime, or a slot of
// the short lane at the limits of that lane.
func (i *Ingester) execute(ctx context.Context, w *work) (left bool) {
	attempt, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	// Register the attempt before its work begins, so that the heartbeat extends the lease from the
	// beginning.
	defer i.held.Remove(i.held.Add(w.LeasedDocument, w.requestedAt, cancel))

	w.began = time.Now()
	w.log = i.deps.Log.With().Str("org_id", w.OrganizationID).Str("document_id", w.ID).Logger()
	// A document that takes long must leave the last free slot, which is reserved for quick
	// documents.
	if w.last {
		go i.yieldLastSlot(attempt, cancel)
	}

	i.changed(w) // publish that the status is now processing
	defer i.changed(w)

	// If the attempt was cancelled, use the cause of the cancellation as the error. It explains the
	// failure better than the error of process.
	info, err := i.process(attempt, w)
	if cause := context.Cause(attempt); cause != nil {
		err = cause
	}

	// A document that takes too long for the short lane has not failed. It continues in an ordinary
	// slot.
	if failure, is := errors.AsType[*document.Failure](err); is && w.short && failure.Code == document.LimitReached {
		err = errYields
	}
	i.finalize(ctx, w, info, err)
	return errors.Is(err, errYields)
}

// yieldLastSlot cancels an attempt in the last slot if it takes longer than lastSlotTime and no
// other slot is free.
func (i *Ingester) yieldLastSlot(attempt context.Context, cancel context.CancelCauseFunc) {
	// The document may keep its slot until all other slots are in use, so check periodically.
	look := time.NewTicker(lastSlotTime)
	defer look.Stop()
	for {
		select {
		case <-attempt.Done():
			return
		case <-look.C:
			if i.shares.full() {
				cancel(errYields)
				return
			}
		}
	}
}

// changed publishes a message that an organization's documents have changed.
func (i *Ingester) changed(w *work) { i.deps.Bus.Changed(domain.ChangedDocuments, w.OrganizationID) }

// process reads and indexes a document and marks it as ready.
func (i *Ingester) process(ctx context.Context, w *work) (document.Info, error) {
	from, err := i.source(ctx, w)
	if err != nil {
		return document.Info{}, err
	}

	from.OnCPUTime = func(cpu time.Duration) { i.shares.spend(w.turn, cpu) }
	info, language, err := i.index(ctx, w, from)
	if err != nil {
		return info, err
	}

	// A search could never find a document without text, such as a scan, so such a document fails.
	if w.chunks == 0 {
		return info, &document.Failure{Code: document.NoText, Message: "The document has no text."}
	}
	end := knowledgedb.FinishedDocument{
		MIMEType: info.MIMEType, Title: info.Title, Language: language, Notes: info.Notes, Model: i.model(), Terms: w.terms,
	}
	if info.Pages > 0 {
		end.Pages = &info.Pages
	}
	return info, fenced(ctx, func() (bool, error) { return i.deps.Index.FinishDocument(ctx, w.LeasedDocument, end) })
}

// model returns the name of the embeddings model, or "" if vectors are not computed.
func (i *Ingester) model() string {
	if i.deps.Embedder == nil {
		return ""
	}
	return i.deps.Embedder.Model()
}

// source returns the document as input for the extractor. If the document was added by URL and is
// not stored yet, source fetches it.
func (i *Ingester) source(ctx context.Context, w *work) (Source, error) {
	// If an earlier attempt has fetched the document, it is already stored.
	if w.Document.SHA256 == nil && w.Document.URL != nil {
		return i.fetchAndStore(ctx, w)
	}
	from := Source{Name: w.Document.Name, MIMEType: w.Document.MIMEType, Short: w.short}

	// A failed read leaves incomplete content, so each retry reads the content from its beginning.
	err := fenced(ctx, func() (bool, error) {
		content, held, err := i.deps.Contents.DocumentContent(ctx, w.LeasedDocument)
		if err != nil || !held {
			return held, err
		}
		from.Content, err = io.ReadAll(io.LimitReader(content, MaxDocumentBytes+1))
		return true, errors.Join(err, content.Close())
	})
	return from, err
}

// finalize records the outcome of an attempt. It writes nothing if this worker no longer holds the
// document.
func (i *Ingester) finalize(ctx context.Context, w *work, info document.Info, err error) {
	took := time.Since(w.began)
	switch {
	case err == nil:
		i.metrics.ready(w, info.Pages, took)
		w.log.Info().Int("pages", info.Pages).Int("chunks", w.chunks).Dur("took_ms", took).Msg("document ready")
	case errors.Is(err, errTaken), errors.Is(err, errLease), ctx.Err() != nil: // if ctx has ended, the worker no longer waits for attempts
		i.metrics.end(endLost)
		w.log.Debug().Err(err).Msg("document failed")
	// The document did not cause the interruption, so the attempt is not counted. Another worker
	// can continue immediately.
	case errors.Is(err, errDraining), errors.Is(err, errYields):
		i.metrics.end(endReleased)
		if err := i.deps.Claims.ReleaseDocument(ctx, w.LeasedDocument); err != nil {
			w.log.Warn().Err(err).Msg("cannot requeue document; its lease will expire")
		}
	// Otherwise the document cannot be processed, or a service that is needed for it has failed.
	default:
		i.fail(ctx, w, err)
	}
}

// fail records that an attempt has failed. If the failure is transient, fail also schedules the
// next attempt.
func (i *Ingester) fail(ctx context.Context, w *work, err error) {
	failure, known := errors.AsType[*document.Failure](err)
	if !known {
		failure = &document.Failure{Code: document.Internal, Message: "Processing the document failed with an internal error.", Retry: true}
		switch {
		case errors.Is(err, errPanicked): // another attempt would panic as well
			failure.Retry = false
		case errors.Is(err, sealdb.ErrContentSealed): // the store has already logged this error
			failure.Message = "The stored document cannot be decrypted. The operator must restore the key that encrypted it."
			failure.Retry = false
		}
		if !errors.Is(err, sealdb.ErrContentSealed) {
			w.log.Error().Err(err).Msg("processing a document failed")
		}
	}

	// The organization's users see this reason in their list of documents.
	why := domain.DocumentError{Code: string(failure.Code), Message: failure.Message}
	i.metrics.failed.WithLabelValues(why.Code).Inc()

	how, write := endFailed, func() (bool, error) { return i.deps.Claims.FailDocument(ctx, w.LeasedDocument, why) }
	if failure.Retry {
		delay := backoff(w.Attempts)
		how, write = endPostponed, func() (bool, error) {
			return i.deps.Claims.PostponeDocument(ctx, w.LeasedDocument, why, delay)
		}
	}

	switch err := fenced(ctx, write); {
	// If another worker now holds the document, that worker will record the outcome.
	case errors.Is(err, errTaken):
		how = endLost
	case err != nil:
		how = endLost
		w.log.Warn().Err(err).Msg("cannot store the outcome of a document; its lease will expire")
	default:
		w.log.Info().Str("code", why.Code).Str("end", how).Msg("document not processed")
	}
	i.metrics.end(how)
}

// backoff returns the delay after the given number of attempts. The delay is one second after the
// first attempt and triples with each attempt, up to 15 minutes. It is then shortened at random by
// up to a quarter. The delays of knowledgedb.MaxDocumentAttempts attempts add up to almost an hour.
func backoff(attempts int) time.Duration {
	// Stop at the maximum delay, before the product can overflow.
	d := backoffFirst
	for n := 1; n < attempts && d < maxBackoff; n++ {
		d *= backoffFactor
	}
	d = min(d, maxBackoff)
	return d - rand.N(d/4) //nolint:gosec // not security-relevant
}

// fenced calls the function write, and repeats the call for up to writeRetryTime while the database
// is unavailable. The result of write states whether this worker still holds the document. If the
// worker does not, fenced returns errTaken.
func fenced(ctx context.Context, write func() (held bool, err error)) error {
	for began := time.Now(); ; _ = lifecycle.Sleep(ctx, writeRetryDelay) {
		// A write may have been committed although its reply was lost. In that case, repeating it
		// changes nothing.
		held, err := write()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil && held:
			return nil
		case err == nil:
			return errTaken
		case !isTransient(err) || time.Since(began) > writeRetryTime:
			return err
		}
	}
}

// isTransient reports whether an error means that the database is unavailable.
func isTransient(err error) bool { return apierr.CodeFor(pg.Unavailable(err)) == apierr.Unavailable }

// errPanicked is the error of an attempt that ended with a panic. Such an attempt is not repeated.
var errPanicked = errors.New("panicked")

// panicError converts a panic to an error, because a document may make any reader panic. The error
// contains the panic's value only if the value is a runtime error. Other values may contain text
// from the document.
func panicError(log zerolog.Logger, cause any) error {
	log.Error().Bytes("stack", debug.Stack()).Msg("processing a document panicked")
	if err, ok := cause.(runtime.Error); ok {
		return fmt.Errorf("%w: %w", errPanicked, err)
	}
	return errPanicked
}
