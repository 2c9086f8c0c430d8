package parley

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strconv"
	"time"
)

const knowledgePath = "/api/knowledge"

// Knowledge adds, reads, searches and deletes the documents that agents search and cite. Changes
// need the role admin; members may read and search.
type Knowledge struct{ group }

// DocumentQuery selects documents. The zero value selects all documents.
type DocumentQuery struct {
	Paging

	// Words that the name contains, ignoring case.
	Q string
	// State of processing.
	Status DocumentStatus
}

// SearchQuery is a question and the documents to search. Only ready documents are searched.
type SearchQuery struct {
	// Question or words to search for.
	Query       string
	DocumentIDs []string          // searches only these documents
	Metadata    map[string]string // only documents that have all of these metadata entries are searched
	Limit       int               // maximum number of passages, at most 50; 0: ten
}

// Upload adds a file. The service then processes the document; see Wait. The same bytes yield the
// same document. The file is read into memory first, so that the request can be repeated.
func (k Knowledge) Upload(ctx context.Context, name string, file io.Reader, metadata map[string]string) (*Document, error) {
	request, err := formRequest(http.MethodPost, name, file, metadata)
	if err != nil {
		return nil, err
	}
	return call[Document](ctx, k.group, request)
}

// Add adds a text, or a URL that the service fetches. The result is queued; see Wait. The same text
// or URL yields the same document.
func (k Knowledge) Add(ctx context.Context, document NewDocument) (*Document, error) {
	return call[Document](ctx, k.group, Request{Method: http.MethodPost, Path: knowledgePath, Body: document, Keyed: true})
}

// formRequest returns the form that uploads a file. If metadata is nil, the form has no metadata.
// formRequest returns errors of reading the file.
func formRequest(method, name string, file io.Reader, metadata map[string]string) (Request, error) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	if metadata != nil {
		raw, err := json.Marshal(metadata)
		if err == nil {
			err = form.WriteField("metadata", string(raw))
		}
		if err != nil {
			return Request{}, fmt.Errorf("encoding metadata: %w", err)
		}
	}

	part, err := form.CreateFormFile("file", name)
	if err == nil {
		_, err = io.Copy(part, file)
	}
	if err == nil {
		err = form.Close()
	}
	if err != nil {
		return Request{}, fmt.Errorf("reading %s: %w", name, err)
	}

	header := map[string]string{"Content-Type": form.FormDataContentType()}
	return Request{Method: method, Path: knowledgePath, Header: header, Body: body.Bytes(), Keyed: true}, nil
}

// Get reads the state of a document. The text of the document is not part of it.
func (k Knowledge) Get(ctx context.Context, id string) (*Document, error) {
	return one[Document](ctx, k.group, knowledgePath, id)
}

// Wait waits until a document is processed: it is ready, or has failed with an error. A failed
// document is not an error of Wait. Wait polls the service, at growing intervals of up to 2
// seconds, until ctx ends.
func (k Knowledge) Wait(ctx context.Context, id string) (*Document, error) {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		document, err := k.Get(ctx, id)
		if err != nil || document.Status == DocumentStatusReady || document.Status == DocumentStatusFailed {
			return document, err
		}
		if err := k.client.options.pause(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// List lists documents, newest first. No request is made before the first page is read.
func (k Knowledge) List(query DocumentQuery) Pages[Document] {
	return list[Document](k.group, knowledgePath, params("q", query.Q, "status", string(query.Status)), query.Paging)
}

// Search finds the passages most similar to a question, best first. Agents use the same search.
// Each passage contains its document and page. Without results, the list is empty.
func (k Knowledge) Search(ctx context.Context, search SearchQuery) (*FoundList, error) {
	query := params("query", search.Query, "limit", number(search.Limit))
	query["documentId"] = search.DocumentIDs
	for name, value := range search.Metadata {
		query.Add("metadata", name+":"+value)
	}

	return get[FoundList](ctx, k.group, knowledgePath, query)
}

// Download reads a document's original. The original of a document with a URL is the content that
// the service fetched.
func (k Knowledge) Download(ctx context.Context, id string) (*File, error) {
	return download(ctx, k.group, knowledgePath, id, params("content", "1"))
}

// Page reads the text of a document's page. Pages are numbered from 1. The document must be ready
// and have pages.
func (k Knowledge) Page(ctx context.Context, id string, page int) (*DocumentPage, error) {
	request := Request{Method: http.MethodGet, Path: knowledgePath, Query: params("page", strconv.Itoa(page))}
	return act[DocumentPage](ctx, k.group, request, id, "")
}

// Passages reads a passage of a document, and the passages around it. Passages are numbered from 0.
// The document must be ready.
func (k Knowledge) Passages(ctx context.Context, id string, chunk int) (*DocumentPassages, error) {
	request := Request{Method: http.MethodGet, Path: knowledgePath, Query: params("chunk", strconv.Itoa(chunk))}
	return act[DocumentPassages](ctx, k.group, request, id, "")
}

// Update changes a document. Omitted fields keep their values. If the content or the name changes,
// the service processes the document again. The result's Status shows whether that is the case.
func (k Knowledge) Update(ctx context.Context, id string, change DocumentChange) (*Document, error) {
	return act[Document](ctx, k.group, Request{Method: http.MethodPut, Path: knowledgePath, Body: change, Keyed: true}, id, "")
}

// Replace replaces the content of a document with a file. The document gets the given name and
// keeps its metadata.
func (k Knowledge) Replace(ctx context.Context, id, name string, file io.Reader) (*Document, error) {
	request, err := formRequest(http.MethodPut, name, file, nil)
	if err != nil {
		return nil, err
	}
	return act[Document](ctx, k.group, request, id, "")
}

// Retry makes the service process a failed or ready document again. It has no effect on a document
// that is being processed.
func (k Knowledge) Retry(ctx context.Context, id string) (*Document, error) {
	return act[Document](ctx, k.group, Request{Method: http.MethodPost, Path: knowledgePath, Keyed: true}, id, "retry")
}

// Delete deletes a document. Searches and new answers no longer contain its passages. Runs that
// have received text of the document are erased.
func (k Knowledge) Delete(ctx context.Context, id string) error {
	return remove(ctx, k.group, knowledgePath, id, nil)
}
