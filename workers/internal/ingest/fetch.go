package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"parley/shared/domain"
	"parley/shared/outbound"
	"parley/shared/store/blobdb"
	"parley/shared/store/knowledgedb"
	"parley/workers/internal/document"
)

// FetchOptions are the options of the HTTP client that fetches documents from URLs.
var FetchOptions = outbound.Options{Timeout: time.Minute, MaxBytes: MaxDocumentBytes, Redirects: 3}

const maxName = 255 // maximum length of a document's name in characters

// fetchAndStore fetches a document from its URL and stores the content.
func (i *Ingester) fetchAndStore(ctx context.Context, w *work) (Source, error) {
	from, err := i.fetch(ctx, *w.Document.URL)
	if err != nil {
		return from, err
	}
	if w.Document.Name != "" && w.Document.Name != *w.Document.URL { // keep the name that the caller has given to the document
		from.Name = w.Document.Name
	}

	// Store the file before it is processed, so that a later attempt need not fetch it again.
	var upload blobdb.Upload
	err = fenced(ctx, func() (_ bool, err error) {
		upload, err = i.deps.Uploads.Upload(ctx, w.OrganizationID, bytes.NewReader(from.Content), MaxDocumentBytes)
		return true, err
	})
	if err != nil {
		return from, err
	}

	err = fenced(ctx, func() (bool, error) {
		return i.deps.Contents.SetDocumentContent(ctx, w.LeasedDocument, upload, from.Name, from.MIMEType, i.cfg.Limits)
	})
	if err == nil {
		i.changed(w) // publish a change, because the size is known now and the name may be new
	}
	if errors.Is(err, knowledgedb.ErrDocumentsFull) {
		return from, &document.Failure{Code: document.QuotaExceeded, Message: "The document quota of the organization is exceeded. " +
			"Delete documents, or raise DOCUMENT_BYTES_PER_ORGANIZATION."}
	}
	return from, err
}

// fetch downloads a document. Its errors do not contain the URL, because URLs may contain secrets.
func (i *Ingester) fetch(ctx context.Context, address string) (Source, error) {
	// The HTTP client checks the address and limits the number of redirects.
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return Source{}, notFetched("The URL cannot be fetched.", false)
	}
	res, err := i.deps.Client.Do(req)
	if err != nil {
		return Source{}, fetchFailure(ctx, err)
	}
	defer res.Body.Close()

	if res.StatusCode != http.StatusOK {
		return Source{}, statusFailure(res.StatusCode)
	}
	content, err := io.ReadAll(res.Body)
	if err != nil {
		return Source{}, fetchFailure(ctx, err)
	}
	if len(content) == 0 {
		return Source{}, notFetched("The URL returned an empty response.", false)
	}

	// An invalid content type is not an error, because the extractor detects the format from the
	// content.
	kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil {
		kind = "application/octet-stream"
	}
	return Source{Name: nameFor(res), MIMEType: kind, Content: content}, nil
}

// notFetched returns the failure of a document that could not be fetched. The argument retry states
// whether a later attempt may succeed.
func notFetched(message string, retry bool) *document.Failure {
	return &document.Failure{Code: document.NotFetched, Message: message, Retry: retry}
}

// fetchFailure converts an error of the HTTP client to a failure. The failure is permanent if the
// host does not exist, is not allowed, or has no valid certificate. Otherwise the fetch is retried.
func fetchFailure(ctx context.Context, err error) error {
	// If the attempt was cancelled, the error is not a failure of the server.
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	why := outbound.AsError(err)
	unresolved, _ := errors.AsType[*net.DNSError](why.Err)
	switch {
	case errors.Is(why, outbound.ErrTooLarge):
		return &document.Failure{Code: document.TooLarge, Message: "The document at the URL is larger than 20 MiB."}
	// A repeated request would fail for the same reason, so the failure is permanent.
	case errors.Is(why, outbound.ErrRefused), unresolved != nil && unresolved.IsNotFound, strings.Contains(why.Message, "certificate"):
		return notFetched(why.Message, false)
	default:
		return notFetched(why.Message, true)
	}
}

// statusFailure returns the failure for a response whose status is not 200.
func statusFailure(status int) error {
	switch {
	case status == http.StatusNotFound, status == http.StatusGone:
		return notFetched("There is no document at the URL (404 or 410).", false)
	// A retry would not help, because the client sends no credentials.
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return notFetched("The URL requires authentication.", false)
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests,
		status >= http.StatusInternalServerError:
		return notFetched("The URL returned "+describe(status)+".", true)
	default:
		return notFetched("The URL returned "+describe(status)+".", false)
	}
}

// describe returns a status code, followed by its standard text if there is one.
func describe(status int) string {
	return strings.TrimSpace(fmt.Sprintf("status %d %s", status, http.StatusText(status)))
}

// nameFor returns the name of a downloaded document. The name comes from the header
// Content-Disposition, else from the path of the URL, else from its host name.
func nameFor(res *http.Response) string {
	if _, params, err := mime.ParseMediaType(res.Header.Get("Content-Disposition")); err == nil {
		if name := domain.CleanName(params["filename"], maxName); name != "" {
			return name
		}
	}

	// After redirects, res.Request is the last request.
	at := res.Request.URL
	if name := domain.CleanName(at.Path, maxName); name != "" {
		return name
	}
	return domain.CleanName(at.Hostname(), maxName)
}
