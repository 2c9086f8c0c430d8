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
	pollEvery = time.Second // how long a document can wait whose doorbell was lost
	fetchWait = time.Second // how long a pull for doorbells stays open
	fetchMax  = 64
	claimTime = 10 * time.Second
	drainTime = 10 * time.Second // for documents in hand to be finished before they are given back, unless it is set
	giveUp    = 5 * time.Second  // for giving back what was not

	// lastSlotTime is how long a document may keep the last free slot while all others are taken.
	lastSlotTime = 2 * time.Second
)

// ShortLane is how many short documents a worker reads besides.
const ShortLane = 3

// Claims is where documents are claimed, held and given up.
type Claims interface {
	ClaimDocuments(ctx context.Context, claim knowledgedb.DocumentClaim) ([]knowledgedb.ClaimedDocument, error)
	ExtendDocuments(ctx context.Context, held []knowledgedb.HeldDocument) (lost []knowledgedb.HeldDocument, err error)
	FailDocument(ctx context.Context, held knowledgedb.HeldDocument, why domain.DocumentError) (bool, error)
	PostponeDocument(ctx context.Context, held knowledgedb.HeldDocument, cause domain.DocumentError, delay time.Duration) (bool, error)
	ReleaseDocument(ctx context.Context, held knowledgedb.HeldDocument) error
}

// Contents is where documents' originals are.
type Contents interface {
	DocumentContent(ctx context.Context, held knowledgedb.HeldDocument) (io.ReadSeekCloser, bool, error)
	SetDocumentContent(
		ctx context.Context, held knowledgedb.HeldDocument, content blobdb.Upload, name, mimeType string, limits knowledgedb.DocumentLimits,
	) (bool, error)
}

// Uploads keeps what is fetched from addresses.
type Uploads interface {
	Upload(ctx context.Context, org string, content io.Reader, maximum int64) (blobdb.Upload, error)
}

// Index is what is written of documents.
type Index interface {
	AddChunks(
		ctx context.Context, held knowledgedb.HeldDocument, chunks []knowledgedb.NewChunk, model string, pages *int, done int,
	) (bool, error)
	FinishDocument(ctx context.Context, held knowledgedb.HeldDocument, end knowledgedb.FinishedDocument) (bool, error)
}

// Source is a document as it is given to be read.
type Source struct {
	Name, MIMEType string
	Content        []byte

	Short bool                    // it is to be read within the limits of the short lane
	Spent func(cpu time.Duration) // is called with the processor time that reading has taken by now, again and again and at the end
}

// Extractor reads documents, one event after another. It is called by several documents at a time; what a document is to blame
// for is a *document.Failure.
type Extractor interface {
	Read(ctx context.Context, from Source, each func(document.Event) error) (document.Info, error)
}

// Embedder makes vectors of texts, each of length 1.
type Embedder interface {
	Model() string
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// Bus is where doorbells are heard, and where it is told that documents have changed.
type Bus interface {
	Lane(lane domain.Lane) *bus.Lane
	Changed(kind domain.ChangeKind, org string)
}

// Config are an ingester's settings.
type Config struct {
	// Concurrency is how many documents are read at a time; 0: one for each core, and one more. The last slot is kept for
	// organizations without a document in hand, if there are two.
	Concurrency int
	Short       int // short documents read besides, of organizations that owe little: ShortLane, or 0
	Limits      knowledgedb.DocumentLimits
	Drain       time.Duration // for documents in hand to be finished once the worker stops; 0: 10 s
}

// Deps are what an ingester works with.
type Deps struct {
	Claims    Claims
	Contents  Contents
	Uploads   Uploads
	Index     Index
	Extractor Extractor
	Embedder  Embedder // nil: documents are searched by words alone
	// Client fetches the documents that are addresses: see FetchOptions.
	Client  *http.Client
	Bus     Bus
	Metrics prometheus.Registerer
	Log     zerolog.Logger
}

// Ingester processes documents. Make it with New and start it with Run.
type Ingester struct {
	cfg     Config
	deps    Deps
	held    *held
	metrics *metrics
	shares  *shares
	slots   *lane
	short   *lane
}

// lane is a number of slots and the goroutine that claims documents for them.
type lane struct {
	taken chan struct{} // has an entry for each slot that is taken
	wake  chan struct{} // has an entry once a doorbell was heard
}

func newLane(slots int) *lane {
	return &lane{taken: make(chan struct{}, slots), wake: make(chan struct{}, 1)}
}

// New makes an ingester.
func New(cfg Config, deps Deps) (*Ingester, error) {
	if cfg.Concurrency == 0 {
		cfg.Concurrency = runtime.GOMAXPROCS(0) + 1
	}
	i := &Ingester{
		cfg: cfg, deps: deps, held: &held{documents: map[string]*holding{}},
		shares: newShares(cfg.Concurrency, cfg.Short), slots: newLane(cfg.Concurrency), short: newLane(cfg.Short),
	}
	var err error
	i.metrics, err = newMetrics(deps.Metrics, i.held.count)
	return i, err
}

// Run processes documents until ctx ends; then it claims no more, lets those in hand be finished for a while and gives the rest
// back for other workers.
func (i *Ingester) Run(ctx context.Context) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var loops, claims, attempts sync.WaitGroup
	loops.Go(func() { i.heartbeat(work) })
	loops.Go(func() { i.held.watch(work) })
	loops.Go(func() { i.listen(ctx) })
	i.deps.Log.Info().Int("concurrency", i.cfg.Concurrency).Msg("ingest worker ready")
	claims.Go(func() { i.claim(ctx, work, &attempts) })
	claims.Go(func() { i.claimShort(ctx, work, &attempts) })
	claims.Wait()
	i.drain(&attempts)
	stop()
	loops.Wait()
	return nil
}

// listen takes doorbells off their stream, while there is a slot for what they are rung for: else another worker shall hear them.
func (i *Ingester) listen(ctx context.Context) {
	from, failed := i.deps.Bus.Lane(domain.LaneIngest), false
	for i.awaitFree(ctx) {
		err := from.Fetch(ctx, fetchMax, fetchWait, func(d *bus.Doorbell) {
			d.Ack() // that the document waits is known where it is claimed
			i.slots.ring()
			i.short.ring()
		})
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			if !failed {
				i.deps.Log.Warn().Err(err).Msg("cannot subscribe to document notifications; polling every second")
			}
			_ = lifecycle.Sleep(ctx, pollEvery)
		}
		failed = err != nil
	}
}

// awaitFree waits for a free slot of any lane, and leaves it free. It returns false when ctx has ended.
func (i *Ingester) awaitFree(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
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

// claim takes documents as slots get free, until ctx ends. What it has begun may go on until the other context ends.
func (i *Ingester) claim(ctx, until context.Context, attempts *sync.WaitGroup) {
	failed := false
	for i.slots.acquire(ctx) {
		free := 1 + i.slots.acquireMore()
		asked := time.Now()
		maximum, not, last := i.shares.room(free)
		claimed, err := i.claimSome(until, knowledgedb.DocumentClaim{Max: maximum, Not: not, Debts: i.shares.debts()})
		for _, c := range claimed {
			i.begin(until, attempts, i.slots, &work{ClaimedDocument: c, asked: asked, last: last})
		}
		for range free - len(claimed) {
			<-i.slots.taken
		}
		if err != nil && !failed {
			i.deps.Log.Warn().Err(err).Msg("cannot claim documents, retrying")
		}
		failed = err != nil
		if len(claimed) < maximum {
			i.slots.rest(ctx)
		}
	}
}

// claimShort takes short documents as slots of the short lane get free, until ctx ends. They are those of organizations that owe little,
// so long documents of others, which may have all slots, do not delay them.
func (i *Ingester) claimShort(ctx, until context.Context, attempts *sync.WaitGroup) {
	for i.short.acquire(ctx) {
		asked := time.Now()
		claimed, err := i.claimSome(until, knowledgedb.DocumentClaim{Max: 1, Not: i.shares.notShort(), Debts: i.shares.debts(), Short: true})
		if err != nil || len(claimed) == 0 { // claim reports errors
			<-i.short.taken
			i.short.rest(ctx)
			continue
		}
		i.begin(until, attempts, i.short, &work{ClaimedDocument: claimed[0], asked: asked, short: true})
	}
}

// begin has a document read that takes a slot of a lane.
func (i *Ingester) begin(ctx context.Context, attempts *sync.WaitGroup, in *lane, w *work) {
	w.turn = i.shares.take(w.OrganizationID, w.short)
	attempts.Go(func() {
		left := i.carry(ctx, w)
		i.shares.giveBack(w.turn, left)
		<-in.taken
		i.slots.ring() // documents may wait for the slot whose doorbells were heard before
		i.short.ring()
	})
}

func (i *Ingester) claimSome(ctx context.Context, claim knowledgedb.DocumentClaim) ([]knowledgedb.ClaimedDocument, error) {
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	return i.deps.Claims.ClaimDocuments(ctx, claim)
}

// ring wakes the claiming goroutine when it waits.
func (l *lane) ring() {
	select {
	case l.wake <- struct{}{}:
	default: // it has been woken already
	}
}

// rest waits for a doorbell, though not for long.
func (l *lane) rest(ctx context.Context) {
	timer := time.NewTimer(pollEvery)
	defer timer.Stop()
	select {
	case <-l.wake:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// acquire waits for a free slot; false when ctx has ended.
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

// acquireMore takes the slots that are free beside.
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

// drain waits for the attempts in hand, and past drainTime has them given back.
func (i *Ingester) drain(attempts *sync.WaitGroup) {
	done := make(chan struct{})
	go func() { attempts.Wait(); close(done) }()
	if within(cmp.Or(i.cfg.Drain, drainTime), done) {
		return
	}
	i.held.cancelAll(errDraining)
	if !within(giveUp, done) {
		i.deps.Log.Warn().Int("documents", i.held.count()).
			Msg("documents were still being processed when the worker stopped; their leases will expire")
	}
}

// within reports whether done was closed before d had passed.
func within(d time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
