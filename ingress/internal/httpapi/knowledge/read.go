package knowledge

import (
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/transfer"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
)

const (
	maxDocumentPages = 1_000_000   // largest page number that a query may contain
	maxChunks        = 100_000_000 // largest passage number that a query may contain
	// MaxPagePassages is the maximum number of passages in a response with a page, about half a
	// million characters. A page can have more, because a page of a spreadsheet may contain the
	// text of the whole document.
	MaxPagePassages = 500
	// Clients must revalidate cached content each time, because the document may have been replaced
	// or deleted.
	documentCaching = "private, no-cache, no-transform"
)

// documentPart is the requested part of a document. At most one of content, page and chunk is set.
// If all fields have their zero values, the document itself is requested.
type documentPart struct {
	content     bool
	page, chunk *int
	picture     bool // show the page as a picture
}

// documentPage is the text of a document's page.
type documentPage struct {
	DocumentID string `json:"documentId"`
	Name       string `json:"name"`
	Page       int    `json:"page"`
	// Number of pages of the document.
	Pages *int `json:"pages"`
	// Text of Passages.
	Text string `json:"text"`
	// Passages of the page, at most MaxPagePassages.
	Passages []domain.Passage `json:"passages"`
	// Whether the page has more than MaxPagePassages passages.
	Truncated bool `json:"truncated,omitempty"`
}

// documentPassages contains consecutive passages of a document. They are a passage and its
// neighbors, so that a client can show a citation in its context.
type documentPassages struct {
	DocumentID string           `json:"documentId"`
	Name       string           `json:"name"`
	Passages   []domain.Passage `json:"passages"`
}

// requestedPart reads from the query which part of the document is requested. Problems of the
// parameters are added to found. If there are any, the result is incomplete and must not be used.
func requestedPart(c *gin.Context, found *httpx.Problems) (part documentPart) {
	if content, present := httpx.QueryValue(c, "content", found); present {
		if content != "1" && content != "true" {
			found.Add("content", httpx.CodeInvalidValue, "must be 1 or true; omit it to read the document's state")
		}
		part.content = true
	}

	if picture, present := httpx.QueryValue(c, "picture", found); present {
		if picture != "1" && picture != "true" {
			found.Add("picture", httpx.CodeInvalidValue, "must be 1 or true; omit it to read the page's text")
		}
		part.picture = true
	}

	part.page = readNumber(c, found, "page", 1, maxDocumentPages)
	if part.picture && part.page == nil {
		found.Add("page", httpx.CodeRequired, "is required with picture")
	}

	part.chunk = readNumber(c, found, "chunk", 0, maxChunks)

	if part.page != nil && part.content {
		found.Add("page", httpx.CodeConflict, "cannot be combined with content")
	}
	if part.chunk != nil && (part.content || part.page != nil) {
		found.Add("chunk", httpx.CodeConflict, "cannot be combined with content or page")
	}
	return part
}

// readNumber reads a parameter that is a whole number. It returns nil if the parameter is missing.
// An invalid number is added to found as a problem; the result is then not nil.
func readNumber(c *gin.Context, found *httpx.Problems, name string, least, limit int) *int {
	text, present := httpx.QueryValue(c, name, found)
	if !present {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > limit || strconv.Itoa(n) != text {
		found.Add(name, httpx.CodeInvalidValue, "must be a whole number from %d to %d", least, limit)
	}
	return &n
}

// readDocument responds with a document, its content, a page or a passage. Any member of the
// organization may read any document.
func (h *Handler) readDocument(c *gin.Context, found *httpx.Problems) error {
	part := requestedPart(c, found)

	documentID, err := httpx.RequiredID(c, id.Document)
	missing := found.Take(err)
	if err = found.Err(); err == nil { // report problems of the query before a malformed id, which is not_found
		err = missing
	}
	if err != nil {
		return err
	}

	switch {
	case part.content:
		return h.sendDocument(c, documentID)
	case part.picture:
		return h.showPicture(c, documentID, *part.page)
	case part.page != nil:
		return h.showPage(c, documentID, *part.page)
	case part.chunk != nil:
		return h.showChunk(c, documentID, *part.chunk)
	}

	doc, err := h.KnowledgeDB.DocumentByID(c.Request.Context(), httpx.Caller(c).OrganizationID, documentID)
	if err != nil {
		return err
	}
	return httpx.JSON(c, http.StatusOK, shownDocument(doc))
}

// sendDocument responds with the document's content as it was uploaded or fetched. A document that
// no worker has fetched yet has no content, which results in not_found.
func (h *Handler) sendDocument(c *gin.Context, documentID string) error {
	slot, err := h.Downloads.Enter(transfer.OwnerFor(c), http.NewResponseController(c.Writer))
	if err != nil {
		return err
	}
	defer h.Downloads.Leave(slot)

	doc, content, err := h.KnowledgeDB.OpenDocument(c.Request.Context(), httpx.Caller(c).OrganizationID, documentID)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }() // opened for reading only, so no data can be lost

	// SendFile takes a domain.File, so describe the document as a file.
	file := domain.File{ID: doc.ID, Name: doc.Name, MIMEType: doc.MIMEType, Bytes: doc.Bytes}
	if doc.SHA256 != nil {
		file.SHA256 = *doc.SHA256
	}

	transfer.SendFile(c, file, documentCaching, content, slot, h.SessionCheck(c))
	return nil
}

// showPage responds with the text of a page, truncated if the page is long. A page can be as large
// as a file, so it takes a download slot. The error is not_found if the document is not ready or
// has no such page.
func (h *Handler) showPage(c *gin.Context, documentID string, page int) error {
	slot, err := h.Downloads.Enter(transfer.OwnerFor(c), http.NewResponseController(c.Writer))
	if err != nil {
		return err
	}
	defer h.Downloads.Leave(slot)

	shown, err := h.pageOfDocument(c, documentID, page)
	if err == nil {
		err = slot.Extend(int64(2 * len(shown.Text))) // the response contains the text twice
	}
	if err != nil {
		return err
	}

	return httpx.JSON(c, http.StatusOK, shown)
}

// pageOfDocument reads a page. It returns not_found if the document is not ready or has no such
// page. The passages overlap, so the text is made from them without repetitions.
func (h *Handler) pageOfDocument(c *gin.Context, documentID string, page int) (shown documentPage, err error) {
	doc, err := h.documentWithPage(c, documentID, page)
	if err != nil {
		return shown, err
	}

	org := httpx.Caller(c).OrganizationID

	// Read one passage more than the maximum, to find out whether the page has more.
	passages, err := h.KnowledgeDB.DocumentPassages(c.Request.Context(), org, documentID, page, MaxPagePassages+1)
	if err != nil {
		return shown, err
	}

	shown = documentPage{DocumentID: doc.ID, Name: doc.Name, Page: page, Pages: doc.Pages, Truncated: len(passages) > MaxPagePassages}
	passages = passages[:min(len(passages), MaxPagePassages)]
	shown.Text, shown.Passages = textFor(passages), shownPassages(passages)
	return shown, nil
}

// documentWithPage returns a document. It returns the error not_found unless the document is ready
// and has the page. Formats without pages, such as plain text, have no number of pages. Page
// numbers begin with 1.
func (h *Handler) documentWithPage(c *gin.Context, documentID string, page int) (domain.Document, error) {
	doc, err := h.readyDocument(c, documentID)
	switch {
	case err != nil:
		return doc, err
	case doc.Pages == nil:
		return doc, apierr.New(apierr.NotFound, "the document has no pages; use the parameter chunk to read one of its %d passages", doc.Chunks)
	case page > *doc.Pages:
		return doc, apierr.New(apierr.NotFound, "page %d does not exist; the last page is %d", page, *doc.Pages)
	}
	return doc, nil
}

// showChunk responds with a passage and its neighbors. Passages are numbered from 0, in the order
// of the document.
func (h *Handler) showChunk(c *gin.Context, documentID string, chunk int) error {
	doc, err := h.readyDocument(c, documentID)
	if err == nil && chunk >= doc.Chunks {
		err = apierr.New(apierr.NotFound, "passage %d does not exist; the document's %d passages are numbered from 0", chunk, doc.Chunks)
	}
	if err != nil {
		return err
	}

	passages, err := h.KnowledgeDB.DocumentPassagesAround(c.Request.Context(), httpx.Caller(c).OrganizationID, documentID, chunk, 1)
	if err == nil && len(passages) == 0 { // the document was replaced in the meantime
		err = noDocument()
	}
	if err != nil {
		return err
	}

	return httpx.JSON(c, http.StatusOK, documentPassages{DocumentID: doc.ID, Name: doc.Name, Passages: shownPassages(passages)})
}

// readyDocument returns a document. It returns the error not_found unless the document has the
// status ready. Passages of a document that is being processed again are not shown, because they
// may be replaced at any time.
func (h *Handler) readyDocument(c *gin.Context, documentID string) (domain.Document, error) {
	doc, err := h.KnowledgeDB.DocumentByID(c.Request.Context(), httpx.Caller(c).OrganizationID, documentID)
	if err == nil && doc.Status != domain.DocumentReady {
		err = apierr.New(apierr.NotFound, "the document is %s: only ready documents have pages and passages", doc.Status)
	}
	return doc, err
}

// noDocument returns the error for a document that was replaced or deleted during the request.
func noDocument() error { return apierr.Missing() }

// textFor joins consecutive passages to a text. Text that is in two passages appears once.
// Characters between two passages are always white space; textFor replaces each of them by a line
// break. StartIndex and EndIndex of a passage count characters of the document.
func textFor(passages []domain.Passage) string {
	var out strings.Builder
	at := 0 // offset in characters
	for _, p := range passages {
		text := p.Text

		// Do not insert line breaks for the characters before the first passage.
		for ; at < p.StartIndex && at > 0; at++ {
			out.WriteByte('\n')
		}
		for ; at > p.StartIndex && text != ""; at-- { // skip the text that the previous passage also contains
			_, size := utf8.DecodeRuneInString(text)
			text = text[size:]
		}
		out.WriteString(text)
		at = p.EndIndex
	}

	return out.String()
}

// shownPassages returns passages in the form of responses, in which lists are never null. It does
// not change the argument.
func shownPassages(passages []domain.Passage) []domain.Passage {
	out := make([]domain.Passage, len(passages))
	for i, p := range passages {
		if p.Headings == nil {
			p.Headings = []string{}
		}
		out[i] = p
	}
	return out
}
