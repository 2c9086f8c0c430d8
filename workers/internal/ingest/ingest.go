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

// Claims is where documents are claimed, held and given up.
type Claims interface {
	ClaimDocuments(ctx context.Context, most int, not []string) ([]knowledgedb.ClaimedDocument, error)
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
	Upload(ctx context.Context, org string, content io.Reader, most int64) (blobdb.Upload, error)
}

// Index is what is written of documents.
type Index interface {
	AddChunks(ctx context.Context, held knowledgedb.HeldDocument, chunks []knowledgedb.NewChunk, model string, pages *int, done int) (bool, error)
	FinishDocument(ctx context.Context, held knowledgedb.HeldDocument, end knowledgedb.FinishedDocument) (bool, error)
}

// Source is a document as it is given to be read.
type Source struct {
	Name, MIMEType string
	Content        []byte
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
	slots   chan struct{}
	shares  *shares
	wake    chan struct{} // a doorbell was heard
}

// New makes an ingester.
func New(cfg Config, deps Deps) (*Ingester, error) {
	if cfg.Concurrency == 0 {
		cfg.Concurrency = runtime.GOMAXPROCS(0) + 1
	}
	i := &Ingester{
		cfg: cfg, deps: deps, held: &held{documents: map[string]*holding{}},
		slots: make(chan struct{}, cfg.Concurrency), shares: newShares(cfg.Concurrency), wake: make(chan struct{}, 1),
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
	var loops, attempts sync.WaitGroup
	loops.Go(func() { i.heartbeat(work) })
	loops.Go(func() { i.held.watch(work) })
	loops.Go(func() { i.listen(ctx) })
	i.deps.Log.Info().Int("concurrency", i.cfg.Concurrency).Msg("ingest worker ready")
	i.claim(ctx, work, &attempts)
	i.drain(&attempts)
	stop()
	loops.Wait()
	return nil
}

// listen takes doorbells off their stream, while there is a slot for what they are rung for: else another worker shall hear them.
func (i *Ingester) listen(ctx context.Context) {
	lane, failed := i.deps.Bus.Lane(domain.LaneIngest), false
	for i.acquire(ctx) {
		<-i.slots
		err := lane.Fetch(ctx, fetchMax, fetchWait, func(d *bus.Doorbell) {
			d.Ack() // that the document waits is known where it is claimed
			i.ring()
		})
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			if !failed {
				i.deps.Log.Warn().Err(err).Msg("cannot hear doorbells of documents; asking for documents every second")
			}
			sleep(ctx, pollEvery)
		}
		failed = err != nil
	}
}

// claim takes documents as slots get free, until ctx ends.
func (i *Ingester) claim(ctx, work context.Context, attempts *sync.WaitGroup) {
	failed := false
	for i.acquire(ctx) {
		free := 1 + i.acquireMore()
		asked := time.Now()
		most, not, last := i.shares.room(free)
		claimed, err := i.claimFor(work, most, not, last)
		for n := range claimed {
			i.shares.take(claimed[n].OrganizationID)
			attempts.Go(func() {
				began := time.Now()
				yielded := i.carry(work, claimed[n], asked, last)
				i.shares.giveBack(claimed[n].OrganizationID, time.Since(began), yielded)
				<-i.slots
				i.ring() // documents may wait for the slot whose doorbells were heard before
			})
		}
		for range free - len(claimed) {
			<-i.slots
		}
		if err != nil && !failed {
			i.deps.Log.Warn().Err(err).Msg("cannot claim documents; trying again")
		}
		failed = err != nil
		if len(claimed) < most {
			i.rest(ctx)
		}
	}
}

// ring wakes whoever rests.
func (i *Ingester) ring() {
	select {
	case i.wake <- struct{}{}:
	default: // it has been woken already
	}
}

// claimFor claims documents of organizations that are not among some. The last slot goes to an organization that owes nothing, if one has
// a document waiting: claiming draws lots, and those who owe would win most of them.
func (i *Ingester) claimFor(ctx context.Context, most int, not []string, last bool) ([]knowledgedb.ClaimedDocument, error) {
	if last {
		if owing := i.shares.owing(); len(owing) > len(not) {
			if claimed, err := i.claimSome(ctx, most, owing); err != nil || len(claimed) > 0 {
				return claimed, err
			}
		}
	}
	return i.claimSome(ctx, most, not)
}

func (i *Ingester) claimSome(ctx context.Context, most int, not []string) ([]knowledgedb.ClaimedDocument, error) {
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	return i.deps.Claims.ClaimDocuments(ctx, most, not)
}

// rest waits for a doorbell, though not for long.
func (i *Ingester) rest(ctx context.Context) {
	timer := time.NewTimer(pollEvery)
	defer timer.Stop()
	select {
	case <-i.wake:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// acquire waits for a free slot; false when ctx has ended.
func (i *Ingester) acquire(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case i.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// acquireMore takes the slots that are free beside.
func (i *Ingester) acquireMore() (n int) {
	for {
		select {
		case i.slots <- struct{}{}:
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
		i.deps.Log.Warn().Int("documents", i.held.count()).Msg("documents were still in hand when the worker stopped; their leases will run out")
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

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
