package ingest

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/domain"
	"parley/shared/lifecycle"
	"parley/shared/store/blobdb"
	"parley/shared/store/knowledgedb"
	"parley/workers/internal/document"
)

const (
	pollEvery = time.Second // time between two polls, which find documents whose job messages were lost
	fetchWait = time.Second // maximum time for which one fetch of job messages waits
	// The maximum number of job messages in one fetch.
	maxFetch = 64
	// Time limit of a claim.
	claimTime   = 10 * time.Second
	drainTime   = 10 * time.Second // default time in which documents in progress may finish at shutdown
	releaseTime = 5 * time.Second  // time limit for releasing the documents that did not finish

	// lastSlotTime is the maximum time for which a document may keep the last free slot while all
	// other slots are in use.
	lastSlotTime = 2 * time.Second
)

// ShortLane is the default number of slots in the short lane.
const ShortLane = 3

// Claims is the store in which this worker claims documents, extends their leases, and records that
// documents have failed or were released.
type Claims interface {
	// ClaimDocuments leases waiting documents to this worker. The result is empty if no document
	// qualifies.
	ClaimDocuments(ctx context.Context, claim knowledgedb.DocumentClaim) ([]knowledgedb.ClaimedDocument, error)

	// ExtendDocuments extends leases and returns the documents that this worker no longer holds.
	ExtendDocuments(ctx context.Context, held []knowledgedb.LeasedDocument) (lost []knowledgedb.LeasedDocument, err error)

	// FailDocument and PostponeDocument return false if this worker no longer holds the document.
	FailDocument(ctx context.Context, held knowledgedb.LeasedDocument, why domain.DocumentError) (bool, error)
	PostponeDocument(ctx context.Context, held knowledgedb.LeasedDocument, cause domain.DocumentError, delay time.Duration) (bool, error)
	// ReleaseDocument requeues a document without an error, for any worker.
	ReleaseDocument(ctx context.Context, held knowledgedb.LeasedDocument) error
}

// Contents gives access to the documents' original files.
type Contents interface {
	// DocumentContent returns a reader of a document's original file. The caller must close the
	// reader. DocumentContent returns false if this worker no longer holds the document.
	DocumentContent(ctx context.Context, held knowledgedb.LeasedDocument) (io.ReadSeekCloser, bool, error)

	// SetDocumentContent stores the original file of a document. It returns
	// knowledgedb.ErrDocumentsFull if the quota is exceeded.
	SetDocumentContent(
		ctx context.Context, held knowledgedb.LeasedDocument, content blobdb.Upload, name, mimeType string, limits knowledgedb.DocumentLimits,
	) (bool, error)
}

// Uploads stores files that were fetched from URLs.
type Uploads interface {
	Upload(ctx context.Context, org string, content io.Reader, maximum int64) (blobdb.Upload, error)
}

// Index stores passages of documents.
type Index interface {
	// AddChunks appends passages and stores the progress. It returns false if another worker has
	// taken over the document.
	AddChunks(
		ctx context.Context, held knowledgedb.LeasedDocument, chunks []knowledgedb.NewChunk, model string, pages *int, done int,
	) (bool, error)
	FinishDocument(ctx context.Context, held knowledgedb.LeasedDocument, end knowledgedb.FinishedDocument) (bool, error)
}

// Source is a document as input for an Extractor.
type Source struct {
	Name, MIMEType string
	Content        []byte

	Short     bool                    // apply the limits of the short lane
	OnCPUTime func(cpu time.Duration) // called repeatedly and at the end with the processor time used so far
}

// Extractor reads documents. It passes the events of a document to the function each, one at a
// time. It may read several documents concurrently. A failure that is caused by a document is a
// *document.Failure.
type Extractor interface {
	Read(ctx context.Context, from Source, each func(document.Event) error) (document.Info, error)
}

// Embedder computes vectors, each of length 1, from texts.
type Embedder interface {
	Model() string

	// Embed returns one vector for each text, in the order of the texts.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// Bus delivers job messages and publishes changes of documents.
type Bus interface {
	Lane(lane domain.Lane) *bus.Lane
	Changed(kind domain.ChangeKind, org string)
}

// Config are the settings of an Ingester.
type Config struct {
	// Concurrency is the number of documents processed at the same time; 0 means the number of
	// cores plus one. With two or more slots, the last free slot is reserved for organizations that
	// have little debt and no document in progress.
	Concurrency int
	Short       int // number of slots in the short lane, usually ShortLane; 0 means no short lane
	Limits      knowledgedb.DocumentLimits
	Drain       time.Duration // time in which documents may finish at shutdown; 0 means 10 s
}

// Deps are the dependencies of an Ingester.
type Deps struct {
	Claims    Claims
	Contents  Contents
	Uploads   Uploads
	Index     Index
	Extractor Extractor
	Embedder  Embedder // if nil, documents can be searched only by words
	// Client downloads documents that callers added by URL; see FetchOptions.
	Client  *http.Client
	Bus     Bus
	Metrics prometheus.Registerer
	Log     zerolog.Logger
}

// Ingester processes documents. Create it with New and start it with Run.
type Ingester struct {
	cfg     Config
	deps    Deps
	held    *heldDocuments
	metrics *metrics
	shares  *shares
	slots   *lane
	short   *lane
}

// lane is a set of slots, and a signal that wakes the goroutine that claims documents for these slots.
type lane struct {
	taken chan struct{} // contains one element for each slot in use
	wake  chan struct{} // contains an element after a notification, until the claiming goroutine has received it
}

// newLane returns a lane with the given number of slots, all free. If slots is 0, no slot can ever
// be acquired.
func newLane(slots int) *lane {
	return &lane{taken: make(chan struct{}, slots), wake: make(chan struct{}, 1)}
}

// New returns an Ingester.
func New(cfg Config, deps Deps) (*Ingester, error) {
	if cfg.Concurrency == 0 {
		cfg.Concurrency = runtime.GOMAXPROCS(0) + 1
	}
	i := &Ingester{
		cfg: cfg, deps: deps, held: newHeldDocuments(),
		shares: newShares(cfg.Concurrency, cfg.Short), slots: newLane(cfg.Concurrency), short: newLane(cfg.Short),
	}
	var err error
	i.metrics, err = newMetrics(deps.Metrics, i.held.Count)
	return i, err
}

// Run processes documents until ctx ends. It then stops claiming documents and waits up to
// Config.Drain for the documents in progress. It releases the remaining documents, so that other
// workers can claim them.
func (i *Ingester) Run(ctx context.Context) error {
	// Attempts do not use ctx, so that they may finish during a shutdown.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()

	var loops, claims, attempts sync.WaitGroup
	loops.Go(func() { i.heartbeat(work) })
	loops.Go(func() { i.held.Watch(work) })
	loops.Go(func() { i.listen(ctx) })

	// The two lanes claim documents independently, so if one lane has no free slot, the other one
	// is not delayed.
	i.deps.Log.Info().Int("concurrency", i.cfg.Concurrency).Msg("ingest worker ready")
	claims.Go(func() { i.claim(ctx, work, &attempts) })
	claims.Go(func() { i.claimShort(ctx, work, &attempts) })
	claims.Wait()

	// Stop the heartbeat last, because attempts that are still finishing need their leases.
	// Cancelled attempts requeue their documents, so that another worker can continue immediately.
	if !i.held.Drain(&attempts, cmp.Or(i.cfg.Drain, drainTime), releaseTime) {
		i.deps.Log.Warn().Int("documents", i.held.Count()).
			Msg("documents were still being processed when the worker stopped; their leases will expire")
	}
	stop()
	loops.Wait()
	return nil
}

// listen receives job messages while a slot is free. Otherwise it receives none, so that another
// worker gets the messages.
func (i *Ingester) listen(ctx context.Context) {
	from, failed := i.deps.Bus.Lane(domain.LaneIngest), false
	for i.awaitFree(ctx) {
		err := from.Fetch(ctx, maxFetch, fetchWait, func(d *bus.JobMessage) {
			d.Ack() // acknowledge immediately, because the database stores which documents wait
			i.slots.notify()
			i.short.notify()
		})
		// If ctx has ended, err is not a failure, because the end of ctx interrupts the fetch.
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			// Log only the first of consecutive failures.
			if !failed {
				i.deps.Log.Warn().Err(err).Msg("cannot subscribe to document notifications; polling every second")
			}
			_ = lifecycle.Sleep(ctx, pollEvery)
		}
		failed = err != nil
	}
}

// awaitFree waits until a lane has a free slot, but does not acquire the slot. It returns false if
// ctx has ended.
func (i *Ingester) awaitFree(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	// Free the slot again, because the claiming goroutine will acquire it.
	case i.slots.taken <- struct{}{}:
		<-i.slots.taken
		return true
	case i.short.taken <- struct{}{}:
		<-i.short.taken
		return true
	case <-ctx.Done():
		return false
	}
}

// claim claims documents for free slots until ctx ends. The attempts use the second context, so
// they may continue after ctx ends.
func (i *Ingester) claim(ctx, until context.Context, attempts *sync.WaitGroup) {
	failed := false
	for i.slots.acquire(ctx) {
		free := 1 + i.slots.acquireMore()
		requestedAt := time.Now()

		// The shares may allow fewer documents than there are free slots.
		maximum, excluded, last := i.shares.claimLimit(free)
		claimed, err := i.claimDocuments(until, knowledgedb.DocumentClaim{Max: maximum, Not: excluded, Debts: i.shares.debts()})
		for _, c := range claimed {
			// The attempt frees the slot when it ends.
			i.begin(until, attempts, i.slots, &work{ClaimedDocument: c, requestedAt: requestedAt, last: last})
		}

		// Free the slots for which no document was claimed.
		for range free - len(claimed) {
			<-i.slots.taken
		}

		if err != nil && !failed {
			i.deps.Log.Warn().Err(err).Msg("cannot fetch queued documents, retrying")
		}
		failed = err != nil

		// If no further documents are waiting, wait for new ones.
		if len(claimed) < maximum {
			i.slots.wait(ctx)
		}
	}
}

// claimShort claims short documents for the short lane until ctx ends. Only documents of
// organizations with little debt qualify. The lane exists so that these documents do not wait for
// long documents of other organizations.
func (i *Ingester) claimShort(ctx, until context.Context, attempts *sync.WaitGroup) {
	for i.short.acquire(ctx) {
		requestedAt := time.Now()
		claimed, err := i.claimDocuments(until, knowledgedb.DocumentClaim{
			Max: 1, Not: i.shares.excludedFromShort(), Debts: i.shares.debts(), Short: true,
		})
		if err != nil || len(claimed) == 0 { // not logged here, because claim logs failures with the same cause
			<-i.short.taken
			i.short.wait(ctx)
			continue
		}
		i.begin(until, attempts, i.short, &work{ClaimedDocument: claimed[0], requestedAt: requestedAt, short: true})
	}
}

// begin starts an attempt at a document. The caller has already acquired a slot in the lane.
func (i *Ingester) begin(ctx context.Context, attempts *sync.WaitGroup, in *lane, w *work) {
	// Count the document before the goroutine starts, so that the next claim takes it into account.
	w.turn = i.shares.take(w.OrganizationID, w.short)
	attempts.Go(func() {
		left := i.execute(ctx, w)
		i.shares.release(w.turn, left)
		<-in.taken
		i.slots.notify() // job messages may have been missed while all slots were in use, so documents may be waiting
		i.short.notify()
	})
}

// claimDocuments claims documents. The claim may take at most claimTime, and a shutdown does not
// interrupt it.
func (i *Ingester) claimDocuments(ctx context.Context, claim knowledgedb.DocumentClaim) ([]knowledgedb.ClaimedDocument, error) {
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	return i.deps.Claims.ClaimDocuments(ctx, claim)
}

// notify wakes the claiming goroutine if it is waiting.
func (l *lane) notify() {
	select {
	case l.wake <- struct{}{}:
	default: // a notification is already pending
	}
}

// wait waits for a notification about new documents, at most for pollEvery.
func (l *lane) wait(ctx context.Context) {
	timer := time.NewTimer(pollEvery)
	defer timer.Stop()
	select {
	case <-l.wake:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// acquire waits for a free slot and takes it. It returns false if ctx has ended.
func (l *lane) acquire(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case l.taken <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// acquireMore takes all further free slots and returns their number.
func (l *lane) acquireMore() (n int) {
	for {
		select {
		case l.taken <- struct{}{}:
			n++
		default:
			return n
		}
	}
}
