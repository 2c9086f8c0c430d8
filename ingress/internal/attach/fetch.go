package attach

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"sync"
	"time"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/outbound"
)

const (
	// fetchTime limits the whole fetch, including the redirects and the body.
	fetchTime = 30 * time.Second

	// These are the maximum numbers of URLs that one ingress process fetches at the same time.
	fetchesPerOrganization = 8
	fetchesAtOnce          = 64
)

// fetcher fetches attachments from URLs. It limits the number of simultaneous fetches, because each
// fetch keeps its caller's request open for up to fetchTime. It is safe for concurrent use.
type fetcher struct {
	// Nil: URLs cannot be fetched.
	client *http.Client

	mu sync.Mutex
	// Number of fetches in progress.
	all int
	// Fetches in progress by organization; no entry: 0.
	byOrg map[string]int
}

// newFetcher returns a fetcher that follows up to 3 redirects. The client enforces the rules for
// outbound requests, also for each redirect. client may be nil.
func newFetcher(client *outbound.Client) *fetcher {
	f := &fetcher{byOrg: map[string]int{}}
	if client != nil {
		f.client = client.HTTP(outbound.Options{Timeout: fetchTime, MaxBytes: domain.MaxAttachmentBytes, Redirects: 3})
	}
	return f
}

// enter takes a slot for a fetch of an organization. It returns an error if the organization or the
// process has too many fetches in progress. The last eighth of all slots is reserved for
// organizations without a fetch in progress. The caller must call leave after the fetch. enter does
// not wait: the error is rate_limited with a Retry-After of one second.
func (f *fetcher) enter(org string) (leave func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	own := f.byOrg[org]
	if own >= fetchesPerOrganization || f.all >= fetchesAtOnce || own > 0 && f.all >= fetchesAtOnce-fetchesAtOnce/8 {
		busy := apierr.New(apierr.RateLimited, "too many attachments are being fetched simultaneously; try again")
		busy.RetryAfter = time.Second
		return nil, busy
	}
	f.all++
	f.byOrg[org]++

	// The caller of enter must call this function exactly once.
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.all--
		if f.byOrg[org]--; f.byOrg[org] == 0 {
			delete(f.byOrg, org)
		}
	}, nil
}

// fetch requests a URL. It passes the name, the declared type and the body of the response to the
// function take. It returns a fault if the URL cannot be fetched. The fault does not contain the
// URL, because URLs may contain secrets. If take returns an error, fetch returns that error, unless
// reading the body failed. The body must be read within take. Only the status 200 counts as
// success.
func (f *fetcher) fetch(ctx context.Context, org, address string, take func(name, declared string, body io.Reader) error) error {
	if f.client == nil {
		return fault("cannot be fetched: this service sends no requests")
	}
	leave, err := f.enter(org)
	if err != nil {
		return err
	}
	defer leave()

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return fault("is not a valid URL")
	}

	res, err := f.client.Do(req)
	if err != nil {
		return fetchFault(ctx, err)
	}

	defer func() { _ = res.Body.Close() }() // the body is only read, so an error of Close loses nothing
	if res.StatusCode != http.StatusOK {
		return fault("cannot be fetched: the server responded with status " + strconv.Itoa(res.StatusCode))
	}

	body := &fetchedBody{from: res.Body}
	err = take(nameFor(res), res.Header.Get("Content-Type"), body)

	// Exceeding the size limit is an error of the content, which take has already returned. Other
	// errors of reading are faults of the fetch.
	if body.err != nil && !errors.Is(body.err, outbound.ErrTooLarge) {
		return fetchFault(ctx, body.err)
	}
	return err
}

// fetchedBody records the error of reading a response, so that the caller can distinguish it from
// an error of the store. It is used by one goroutine.
type fetchedBody struct {
	from io.Reader
	// Error of reading, other than io.EOF.
	err error
}

// Read reads from the response and records an error. The error is passed on, so that the reader
// stops.
func (b *fetchedBody) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err //nolint:wrapcheck // the caller's own reader
}

// fetchFault converts an error of the HTTP client to a fault. If ctx has ended, it returns the
// cause of ctx instead. The message describes the kind of failure, for example an unreachable host,
// without the URL.
func fetchFault(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx) //nolint:wrapcheck // the client of the request has disconnected
	}
	return fault("cannot be fetched: " + outbound.AsError(err).Message)
}

// nameFor returns the name of a downloaded file, taken from the response's header or from the last
// part of the URL. The URL is that of the last redirect. The result is "" if neither contains a
// usable name.
func nameFor(res *http.Response) string {
	if _, params, err := mime.ParseMediaType(res.Header.Get("Content-Disposition")); err == nil {
		if name := domain.CleanName(params["filename"], maxName); name != "" {
			return name
		}
	}
	return domain.CleanName(res.Request.URL.Path, maxName)
}
