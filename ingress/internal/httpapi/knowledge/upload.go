package knowledge

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/transfer"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/blobdb"
	"parley/shared/store/knowledgedb"
)

// documentsFullWait is the Retry-After in a response about an exceeded document quota. It is long,
// because a retry succeeds only after documents were deleted.
const documentsFullWait = time.Minute

// dropTimeout is the maximum duration of the removal of a rejected form's contents.
const dropTimeout = 5 * time.Second

// JobNotifier publishes jobs to workers, and changes to clients that watch the organization. Both
// methods return at once. Lost messages do no harm: workers poll for queued documents, and clients
// read the list again.
type JobNotifier interface {
	PublishJobs(jobs ...domain.Job)
	Changed(kind domain.ChangeKind, org string)
}

// addDocuments handles POST /api/knowledge: it adds the documents from a form or from JSON. The
// status is 202. All documents of a request are added, or none. If a document with the same content
// or URL exists, the response contains that document. If a quota is full, the error is
// budget_exceeded.
func (h *Handler) addDocuments(c *gin.Context) error {
	docs, leave, err := h.readDocuments(c)
	if err != nil {
		return err
	}
	defer leave()

	for i := range docs {
		docs[i].ID, docs[i].CreatedBy = id.New(id.Document), httpx.Caller(c).Principal()
	}

	queued, err := h.KnowledgeDB.AddDocuments(c.Request.Context(), httpx.Caller(c).OrganizationID, docs, h.Limits)
	if err != nil {
		return documentError(err)
	}

	h.notify(c, queued...)

	// If the request adds a single document, the response is that document; otherwise it is a list.
	if len(queued) == 1 {
		return httpx.JSON(c, http.StatusAccepted, shownDocument(queued[0].Document))
	}

	return httpx.JSON(c, http.StatusAccepted, batch[domain.Document]{shownDocuments(queued)})
}

// batch is a response with several objects that is not a page of a list. Additions respond with it,
// because all their documents are in one response.
type batch[T any] struct {
	Data []T `json:"data"`
}

// shownDocuments returns documents in the form of responses.
func shownDocuments(queued []knowledgedb.QueuedDocument) []domain.Document {
	shown := make([]domain.Document, len(queued))
	for i, q := range queued {
		shown[i] = shownDocument(q.Document)
	}
	return shown
}

// readDocuments reads the documents of a request and stores their contents. The caller must call
// leave after it has stored the documents. If err is not nil, leave need not be called, and nothing
// stays stored except contents that the sweeper removes.
func (h *Handler) readDocuments(c *gin.Context) (docs []knowledgedb.NewDocument, leave func(), err error) {
	// A form may have several files, and its metadata applies to each of them. A JSON body contains
	// one document.
	if httpx.IsForm(c.Request.Header) {
		form, leave, err := h.readDocumentForm(c, maxFormFiles)
		if err != nil {
			return nil, nil, err
		}
		for i := range form.files {
			form.files[i].Metadata = form.metadata
		}
		return form.files, leave, nil
	}

	// A large body occupies its slot until the content is stored, because the content is a part of
	// the body.
	body, leave, err := bindDocument[newDocumentBody](h, c)
	if err != nil {
		return nil, nil, err
	}

	doc := body.newDocument(body.URL.Value)
	if doc.Content, err = h.uploadContent(c, &body.documentFields); err != nil {
		leave()
		return nil, nil, err
	}
	return []knowledgedb.NewDocument{doc}, leave, nil
}

// readDocumentForm reads a form with up to limit files and stores their contents as they arrive. If
// err is not nil, leave need not be called, and the stored contents of the form are removed. The
// whole form counts as one upload of the organization.
func (h *Handler) readDocumentForm(c *gin.Context, limit int) (form *documentForm, leave func(), err error) {
	if c.Request.ContentLength == 0 {
		return nil, nil, apierr.Invalid(httpx.BodyPath, httpx.CodeRequired, "a form is required")
	}

	in, err := transfer.Receive(c, transfer.OwnerFor(c), h.SessionCheck(c),
		transfer.Step{All: &h.Small, Max: transfer.SmallBody}, transfer.Step{All: &h.Uploads, Max: MaxForm})
	if err != nil {
		return nil, nil, err
	}

	form, err = newDocumentForm(in, c.GetHeader("Content-Type"), limit, h.uploader(c))
	if err == nil {
		err = form.read()
	}
	if err != nil {
		in.Leave()
		h.dropUploads(c, form)
		return nil, nil, err
	}

	in.Complete()
	return form, in.Leave, nil
}

// dropUploads removes the stored contents of a rejected form. If that fails, the sweeper removes
// them later. The removal continues if the caller disconnects, for up to dropTimeout. An error is
// logged.
func (h *Handler) dropUploads(c *gin.Context, form *documentForm) {
	if form == nil || len(form.files) == 0 {
		return
	}

	uploads := make([]blobdb.Upload, len(form.files))
	for i, doc := range form.files {
		uploads[i] = *doc.Content
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), dropTimeout)
	defer cancel()
	if err := h.BlobsDB.DropUploads(ctx, httpx.Caller(c).OrganizationID, uploads); err != nil {
		h.Log.Warn().Err(err).Str("org_id", httpx.Caller(c).OrganizationID).
			Msg("cannot remove the content of a rejected form; the sweeper will retry")
	}
}

// uploader returns a function that stores content for the caller's organization. The content may
// have at most MaxDocument bytes; otherwise the function returns blobdb.ErrTooLarge.
func (h *Handler) uploader(c *gin.Context) func(io.Reader) (blobdb.Upload, error) {
	org, ctx := httpx.Caller(c).OrganizationID, c.Request.Context()
	return func(content io.Reader) (blobdb.Upload, error) {
		return h.BlobsDB.Upload(ctx, org, content, MaxDocument)
	}
}

// uploadContent stores the body's content. It returns nil and no error if the body has no content.
// The content has no document yet. If the request fails later, the sweeper removes the content.
func (h *Handler) uploadContent(c *gin.Context, f *documentFields) (*blobdb.Upload, error) {
	from, name := f.content()
	if from == nil {
		return nil, nil //nolint:nilnil // no content
	}

	kept, err := h.uploader(c)(from)
	if errors.Is(err, blobdb.ErrTooLarge) {
		return nil, documentTooLarge(name)
	}
	if err != nil {
		return nil, err
	}
	return &kept, nil
}

// putDocument handles PUT /api/knowledge?id=: it changes the content, the name or the metadata of a
// document. Missing fields stay unchanged. The status is 202 if the document must be processed
// again, otherwise 200. A JSON body may contain all fields of a document that was read with GET.
func (h *Handler) putDocument(c *gin.Context) error {
	documentID, err := httpx.RequiredID(c, id.Document)
	if err != nil {
		return err
	}

	// Look up the document first, so that no content is stored for a document that does not exist.
	known, err := h.KnowledgeDB.DocumentByID(c.Request.Context(), httpx.Caller(c).OrganizationID, documentID)
	if err != nil {
		return err
	}
	if httpx.IsForm(c.Request.Header) {
		return h.putForm(c, known)
	}

	body, leave, err := bindDocument[documentChangeBody](h, c)
	if err != nil {
		return err
	}
	defer leave()

	if err := body.checkAgainst(known); err != nil {
		return err
	}

	return h.putBody(c, known, &body)
}

// checkAgainst checks the body against the document that it changes. Read-only fields must be
// unchanged. Without new content, the type must not change, and the URL must not be removed. All
// problems are returned as one error.
func (b *documentChangeBody) checkAgainst(known domain.Document) error {
	found := &httpx.Problems{}
	if b.URL.Set && b.URL.Value == nil && known.URL != nil && !b.Content.Set && !b.ContentBase64.Set {
		found.Add("url", httpx.CodeInvalidValue, "cannot be removed without new content for the document")
	}

	// An unchanged URL is not new content: the document is not fetched again.
	withContent := b.Content.Set || b.ContentBase64.Set || b.URL.Value != nil && (known.URL == nil || *b.URL.Value != *known.URL)
	if b.MIMEType.Set && !withContent && b.MIMEType.Value != shownDocument(known).MIMEType {
		found.Add("mimeType", httpx.CodeInvalidValue, "is detected from the content; it can be changed only together with the content")
	}
	return httpx.Unchanged(found, *b, shownDocument(known))
}

// putBody changes a document as the JSON body of the request describes. The body must have passed
// checkAgainst. Without new content, only the name and the metadata change.
func (h *Handler) putBody(c *gin.Context, known domain.Document, body *documentChangeBody) error {
	address := body.address()
	if known.URL != nil && *known.URL == address.Value {
		address = httpx.Optional[string]{} // the URL is unchanged
	}

	if !body.Content.Set && !body.ContentBase64.Set && !address.Set {
		return h.editDocument(c, known, &body.documentFields)
	}
	if !body.Name.Set && !address.Set { // the document keeps its name, whose extension may determine the type of the new content
		body.Name = httpx.Optional[string]{Set: true, Value: known.Name}
	}

	with := body.newDocument(address.Value)
	if !body.Name.Set {
		with.Name = known.Name
	}

	// Null removes the metadata; a missing field keeps it.
	switch {
	case body.Metadata.Null:
		with.Metadata = map[string]string{}
	case !body.Metadata.Set:
		with.Metadata = known.Metadata
	}

	// Store the content before the change, because the change refers to it.
	var err error
	if with.Content, err = h.uploadContent(c, &body.documentFields); err != nil {
		return err
	}

	return h.replaceDocument(c, known.ID, with)
}

// putForm replaces a document's content by the single file in a form. Without a part for metadata,
// the metadata stays. The document gets the name of the file.
func (h *Handler) putForm(c *gin.Context, known domain.Document) error {
	form, leave, err := h.readDocumentForm(c, 1)
	if err != nil {
		return err
	}
	defer leave()

	with := form.files[0]
	if with.Metadata = form.metadata; !form.hasMetadata {
		with.Metadata = known.Metadata
	}

	return h.replaceDocument(c, known.ID, with)
}

// editDocument changes the name and the metadata of a document and responds with it. The status is
// 202 if the document must be processed again. Missing fields stay unchanged.
func (h *Handler) editDocument(c *gin.Context, known domain.Document, f *documentFields) error {
	var name *string
	var metadata *map[string]string
	if f.Name.Set {
		name = &f.Name.Value
	}
	if f.Metadata.Set {
		metadata = &f.Metadata.Value
	}

	edited, err := h.KnowledgeDB.EditDocument(c.Request.Context(), httpx.Caller(c).OrganizationID, known.ID, name, metadata)
	if err != nil {
		return err
	}

	status := http.StatusOK

	// The store returns a job only if the document must be processed again.
	if edited.Job != nil { // searches also find words of the name, so a document with a new name must be processed again
		status = http.StatusAccepted
	}

	h.notify(c, edited)
	return httpx.JSON(c, status, shownDocument(edited.Document))
}

// replaceDocument replaces the content of a document and queues the document for processing.
// Searches no longer find the old content. The error is document_exists if another document has the
// new content or URL.
func (h *Handler) replaceDocument(c *gin.Context, documentID string, with knowledgedb.NewDocument) error {
	with.CreatedBy = httpx.Caller(c).Principal()
	queued, err := h.KnowledgeDB.ReplaceDocument(c.Request.Context(), httpx.Caller(c).OrganizationID, documentID, with, h.Limits)
	if err != nil {
		return documentError(err)
	}
	h.notify(c, queued)
	return httpx.JSON(c, http.StatusAccepted, shownDocument(queued.Document))
}

// retryDocument handles POST /api/knowledge?id=&action=retry: it queues a failed or ready document
// for processing. It changes nothing if the document is queued or being processed. The response is
// 202 with the document.
func (h *Handler) retryDocument(c *gin.Context) error {
	documentID, err := httpx.RequiredID(c, id.Document)
	if err != nil {
		return err
	}

	queued, err := h.KnowledgeDB.RetryDocument(c.Request.Context(), httpx.Caller(c).OrganizationID, documentID)
	if err != nil {
		return err
	}

	h.notify(c, queued)
	return httpx.JSON(c, http.StatusAccepted, shownDocument(queued.Document))
}

// notify publishes the jobs of queued documents to workers, and a change to watchers. A lost job
// does no harm, because workers also poll for queued documents. notify does not block. It must be
// called after the commit, because workers read the documents' rows.
func (h *Handler) notify(c *gin.Context, queued ...knowledgedb.QueuedDocument) {
	jobs := make([]domain.Job, 0, len(queued))

	// Several documents can have the same job, which is published once.
	for _, q := range queued {
		if q.Job != nil && !slices.ContainsFunc(jobs, func(j domain.Job) bool { return j.RunID == q.Job.RunID }) {
			job := *q.Job
			job.Traceparent = httpx.Traceparent(c)
			jobs = append(jobs, job)
		}
	}
	h.Jobs.PublishJobs(jobs...)
	h.Jobs.Changed(domain.ChangedDocuments, httpx.Caller(c).OrganizationID)
}

// documentError converts the store's errors about rejected documents to API errors. The error
// budget_exceeded has a Retry-After, and document_exists names the existing document. Other errors
// are returned unchanged.
func documentError(err error) error {
	var duplicate knowledgedb.ErrDuplicateDocument
	switch {
	case errors.Is(err, knowledgedb.ErrDocumentsFull):
		full := apierr.Wrap(apierr.BudgetExceeded, err, "document quota of the organization exceeded; "+
			"delete documents or raise DOCUMENTS_PER_ORGANIZATION or DOCUMENT_BYTES_PER_ORGANIZATION")
		full.RetryAfter = documentsFullWait
		return full
	case errors.As(err, &duplicate):
		return apierr.Wrap(apierr.DocumentExists, err,
			"the document %q (%s) already has this content or URL; change that document, or delete it first", duplicate.Name, duplicate.ID)
	}
	return err
}
