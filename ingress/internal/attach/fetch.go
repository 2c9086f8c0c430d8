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
	fetchTime = 30 * time.Second // of one URL

	// Maximum numbers of URLs that one ingress process fetches simultaneously.
	fetchesPerOrganization = 8
	fetchesAtOnce          = 64
)

// fetcher fetches attachments from URLs.
type fetcher struct {
	client *http.Client

	mu    sync.Mutex
	all   int
	byOrg map[string]int
}

func newFetcher(client *outbound.Client) *fetcher {
	f := &fetcher{byOrg: map[string]int{}}
	if client != nil {
		f.client = client.HTTP(outbound.Options{Timeout: fetchTime, MaxBytes: domain.MaxAttachmentBytes, Redirects: 3})
	}
	return f
}

// enter counts a fetch of an organization. It returns an error if too many are in progress. An
// organization without a fetch may use the last eighth of all.
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
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.all--
		if f.byOrg[org]--; f.byOrg[org] == 0 {
			delete(f.byOrg, org)
		}
	}, nil
}

// fetch requests a URL and passes the name, the declared type and the body of its response to take. A
// URL that cannot be fetched is a fault. The fault does not contain the URL, which may contain
// secrets.
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
	defer func() { _ = res.Body.Close() }() // read only: nothing can be lost
	if res.StatusCode != http.StatusOK {
		return fault("cannot be fetched: the server responded with the status " + strconv.Itoa(res.StatusCode))
	}

	body := &fetchedBody{from: res.Body}
	err = take(nameFor(res), res.Header.Get("Content-Type"), body)
	if body.err != nil && !errors.Is(body.err, outbound.ErrTooLarge) {
		return fetchFault(ctx, body.err)
	}
	return err
}

// fetchedBody remembers the error of reading a response, to distinguish it from errors of the store.
type fetchedBody struct {
	from io.Reader
	err  error
}

// Read reads from the response.
func (b *fetchedBody) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err //nolint:wrapcheck // the caller's own reader
}

// fetchFault converts an error of the HTTP client to a fault, or to the error of ctx.
func fetchFault(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx) //nolint:wrapcheck // the request has gone away
	}
	return fault("cannot be fetched: " + outbound.AsError(err).Message)
}

// nameFor returns the name of a downloaded file, from the response's header or from the end of the
// URL.
func nameFor(res *http.Response) string {
	if _, params, err := mime.ParseMediaType(res.Header.Get("Content-Disposition")); err == nil {
		if name := domain.CleanName(params["filename"], maxName); name != "" {
			return name
		}
	}
	return domain.CleanName(res.Request.URL.Path, maxName)
}
