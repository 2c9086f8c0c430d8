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

// documentsFullWait is when whoever has no room for another document may try again: only deleting some makes room.
const documentsFullWait = time.Minute

const dropTime = 5 * time.Second

// Doorbells rings for what waits to be done by workers, and tells whoever watches that something has changed.
type Doorbells interface {
	Ring(jobs ...domain.Job)
	Changed(kind domain.ChangeKind, org string)
}

// addDocuments is POST /api/knowledge: documents to be read, from a form or from JSON.
func (h *Handler) addDocuments(c *gin.Context) {
	docs, leave, err := h.documentsSent(c)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer leave()
	for i := range docs {
		docs[i].ID, docs[i].CreatedBy = id.New(id.Document), httpx.Caller(c).Principal()
	}
	queued, err := h.KnowledgeDB.AddDocuments(c.Request.Context(), httpx.Caller(c).OrganizationID, docs, h.Limits)
	if err != nil {
		httpx.Fail(c, refusedDocument(err))
		return
	}
	h.ring(c, queued...)
	if len(queued) == 1 {
		httpx.WriteJSON(c, http.StatusAccepted, shownDocument(queued[0].Document))
		return
	}
	shown := make([]domain.Document, len(queued))
	for i, q := range queued {
		shown[i] = shownDocument(q.Document)
	}
	httpx.WriteJSON(c, http.StatusAccepted, struct {
		Data []domain.Document `json:"data"`
	}{shown})
}

// documentsSent reads the documents of a request. leave must be called when they are stored.
func (h *Handler) documentsSent(c *gin.Context) (docs []knowledgedb.NewDocument, leave func(), err error) {
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
	body, leave, err := bindDocument[newDocumentBody](h, c)
	if err != nil {
		return nil, nil, err
	}
	doc := body.newDocument(body.URL.Value)
	if doc.Content, err = h.keepContent(c, &body.documentFields); err != nil {
		leave()
		return nil, nil, err
	}
	return []knowledgedb.NewDocument{doc}, leave, nil
}

// readDocumentForm takes a form with up to most files, whose contents are kept as they come.
func (h *Handler) readDocumentForm(c *gin.Context, limit int) (form *documentForm, leave func(), err error) {
	if c.Request.ContentLength == 0 {
		return nil, nil, apierr.Invalid(httpx.BodyPath, httpx.CodeRequired, "a form is required")
	}
	in, err := transfer.Receive(c, transfer.OwnerFor(c), h.Permit(c),
		transfer.Step{All: &h.Small, Max: transfer.SmallBody}, transfer.Step{All: &h.Uploads, Max: MaxForm})
	if err != nil {
		return nil, nil, err
	}
	form, err = newDocumentForm(in, c.GetHeader("Content-Type"), limit, h.keeper(c))
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

// dropUploads removes the contents of a form that was not taken. What it leaves, the sweeper removes.
func (h *Handler) dropUploads(c *gin.Context, form *documentForm) {
	if form == nil || len(form.files) == 0 {
		return
	}
	uploads := make([]blobdb.Upload, len(form.files))
	for i, doc := range form.files {
		uploads[i] = *doc.Content
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), dropTime)
	defer cancel()
	if err := h.BlobsDB.DropUploads(ctx, httpx.Caller(c).OrganizationID, uploads); err != nil {
		h.Log.Warn().Err(err).Str("org_id", httpx.Caller(c).OrganizationID).
			Msg("cannot remove the content of a rejected form; the sweeper will retry")
	}
}

// keeper keeps contents of the caller's organization, for as long as the request lasts.
func (h *Handler) keeper(c *gin.Context) func(io.Reader) (blobdb.Upload, error) {
	org, ctx := httpx.Caller(c).OrganizationID, c.Request.Context()
	return func(content io.Reader) (blobdb.Upload, error) {
		return h.BlobsDB.Upload(ctx, org, content, MaxDocument)
	}
}

// keepContent keeps the content that a body holds; nil when it holds none.
func (h *Handler) keepContent(c *gin.Context, f *documentFields) (*blobdb.Upload, error) {
	from, name := f.content()
	if from == nil {
		return nil, nil //nolint:nilnil // there may be none
	}
	kept, err := h.keeper(c)(from)
	if errors.Is(err, blobdb.ErrTooLarge) {
		return nil, documentTooLarge(name)
	}
	if err != nil {
		return nil, err
	}
	return &kept, nil
}

// putDocument is PUT /api/knowledge?id=: another content, name or metadata. What is left out stays.
func (h *Handler) putDocument(c *gin.Context) {
	documentID, err := httpx.RequiredID(c, id.Document)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	// Before the body comes: of what is not there nothing is kept.
	known, err := h.KnowledgeDB.DocumentByID(c.Request.Context(), httpx.Caller(c).OrganizationID, documentID)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	if httpx.IsForm(c.Request.Header) {
		h.putForm(c, known)
		return
	}
	body, leave, err := bindDocument[documentChangeBody](h, c)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer leave()
	if err := body.fits(known); err != nil {
		httpx.Fail(c, err)
		return
	}
	h.putBody(c, known, &body)
}

// fits reports what of the body does not go with the document that it changes.
func (b *documentChangeBody) fits(known domain.Document) error {
	found := &httpx.Problems{}
	if b.URL.Set && b.URL.Value == nil && known.URL != nil && !b.Content.Set && !b.ContentBase64.Set {
		found.Add("url", httpx.CodeInvalidValue, "cannot be removed without new content for the document")
	}
	withContent := b.Content.Set || b.ContentBase64.Set || b.URL.Value != nil && (known.URL == nil || *b.URL.Value != *known.URL)
	if b.MIMEType.Set && !withContent && b.MIMEType.Value != shownDocument(known).MIMEType {
		found.Add("mimeType", httpx.CodeInvalidValue, "is detected from the content: send it with new content, or as it was read")
	}
	return httpx.Unchanged(found, *b, shownDocument(known))
}

// putBody changes a document as a JSON body says.
func (h *Handler) putBody(c *gin.Context, known domain.Document, body *documentChangeBody) {
	address := body.address()
	if known.URL != nil && *known.URL == address.Value {
		address = httpx.Optional[string]{} // sent back as it was read
	}
	if !body.Content.Set && !body.ContentBase64.Set && !address.Set {
		h.editDocument(c, known, &body.documentFields)
		return
	}
	if !body.Name.Set && !address.Set { // the name stays, and says what the content is
		body.Name = httpx.Optional[string]{Set: true, Value: known.Name}
	}
	with := body.newDocument(address.Value)
	if !body.Name.Set {
		with.Name = known.Name
	}
	switch {
	case body.Metadata.Null:
		with.Metadata = map[string]string{}
	case !body.Metadata.Set:
		with.Metadata = known.Metadata
	}
	var err error
	if with.Content, err = h.keepContent(c, &body.documentFields); err != nil {
		httpx.Fail(c, err)
		return
	}
	h.replaceDocument(c, known.ID, with)
}

// putForm replaces a document by the one file of a form.
func (h *Handler) putForm(c *gin.Context, known domain.Document) {
	form, leave, err := h.readDocumentForm(c, 1)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer leave()
	with := form.files[0]
	if with.Metadata = form.metadata; !form.told {
		with.Metadata = known.Metadata
	}
	h.replaceDocument(c, known.ID, with)
}

func (h *Handler) editDocument(c *gin.Context, known domain.Document, f *documentFields) {
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
		httpx.Fail(c, err)
		return
	}
	status := http.StatusOK
	if edited.Job != nil { // names are searched: it is read anew
		status = http.StatusAccepted
	}
	h.ring(c, edited)
	httpx.WriteJSON(c, status, shownDocument(edited.Document))
}

func (h *Handler) replaceDocument(c *gin.Context, documentID string, with knowledgedb.NewDocument) {
	with.CreatedBy = httpx.Caller(c).Principal()
	queued, err := h.KnowledgeDB.ReplaceDocument(c.Request.Context(), httpx.Caller(c).OrganizationID, documentID, with, h.Limits)
	if err != nil {
		httpx.Fail(c, refusedDocument(err))
		return
	}
	h.ring(c, queued)
	httpx.WriteJSON(c, http.StatusAccepted, shownDocument(queued.Document))
}

// retryDocument is POST /api/knowledge?id=&action=retry: a document is read again, one that failed or one that is ready.
func (h *Handler) retryDocument(c *gin.Context) {
	documentID, err := httpx.RequiredID(c, id.Document)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	queued, err := h.KnowledgeDB.RetryDocument(c.Request.Context(), httpx.Caller(c).OrganizationID, documentID)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	h.ring(c, queued)
	httpx.WriteJSON(c, http.StatusAccepted, shownDocument(queued.Document))
}

// ring tells workers of documents that wait, and whoever watches that they have changed. Without it workers look by themselves.
func (h *Handler) ring(c *gin.Context, queued ...knowledgedb.QueuedDocument) {
	jobs := make([]domain.Job, 0, len(queued))
	for _, q := range queued {
		if q.Job != nil && !slices.ContainsFunc(jobs, func(j domain.Job) bool { return j.RunID == q.Job.RunID }) {
			job := *q.Job
			job.Traceparent = httpx.Traceparent(c)
			jobs = append(jobs, job)
		}
	}
	h.Bells.Ring(jobs...)
	h.Bells.Changed(domain.ChangedDocuments, httpx.Caller(c).OrganizationID)
}

// refusedDocument turns what the store says of documents that it does not take into coded errors.
func refusedDocument(err error) error {
	var duplicate knowledgedb.ErrDuplicateDocument
	switch {
	case errors.Is(err, knowledgedb.ErrDocumentsFull):
		full := apierr.Wrap(apierr.BudgetExceeded, err, "document quota of the organization exceeded; "+
			"delete documents or raise DOCUMENTS_PER_ORGANIZATION or DOCUMENT_BYTES_PER_ORGANIZATION")
		full.RetryAfter = documentsFullWait
		return full
	case errors.As(err, &duplicate):
		return apierr.Wrap(apierr.DocumentExists, err, "the document %s already has this content or this address", duplicate.ID)
	}
	return err
}
