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
	maxDocumentPages = 1_000_000   // that a query can name
	maxChunks        = 100_000_000 // the same
	// MaxPagePassages is how many passages of a page are shown: about half a million characters.
	// A sheet may be one page with all of a document's text.
	MaxPagePassages = 500
	// A document's content is replaced and deleted under the same id: whoever has it asks again each time.
	documentCaching = "private, no-cache, no-transform"
)

// documentAsked is what of a document a query asks for: at most one of these.
type documentAsked struct {
	content     bool
	page, chunk *int
}

// documentPage is what stands on a page of a document.
type documentPage struct {
	DocumentID string           `json:"documentId"`
	Name       string           `json:"name"`
	Page       int              `json:"page"`
	Pages      *int             `json:"pages"`
	Text       string           `json:"text"`
	Passages   []domain.Passage `json:"passages"`
	Truncated  bool             `json:"truncated,omitempty"`
}

// documentPassages are passages that follow each other.
type documentPassages struct {
	DocumentID string           `json:"documentId"`
	Name       string           `json:"name"`
	Passages   []domain.Passage `json:"passages"`
}

func askedFor(c *gin.Context, found *httpx.Problems) (asked documentAsked) {
	if content, given := httpx.QueryValue(c, "content", found); given {
		if content != "1" && content != "true" {
			found.Add("content", httpx.CodeInvalidValue, "must be 1 or true; omit it to read the document's state")
		}
		asked.content = true
	}
	asked.page = numbered(c, found, "page", 1, maxDocumentPages)
	asked.chunk = numbered(c, found, "chunk", 0, maxChunks)
	if asked.page != nil && asked.content {
		found.Add("page", httpx.CodeConflict, "cannot be combined with content")
	}
	if asked.chunk != nil && (asked.content || asked.page != nil) {
		found.Add("chunk", httpx.CodeConflict, "cannot be combined with content or page")
	}
	return asked
}

// numbered reads a parameter that is a whole number; nil when it is not given.
func numbered(c *gin.Context, found *httpx.Problems, name string, least, limit int) *int {
	text, given := httpx.QueryValue(c, name, found)
	if !given {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > limit || strconv.Itoa(n) != text {
		found.Add(name, httpx.CodeInvalidValue, "must be a whole number from %d to %d", least, limit)
	}
	return &n
}

// readDocument gives a document, its content, or what stands at a place in it.
func (h *Handler) readDocument(c *gin.Context, found *httpx.Problems) {
	asked := askedFor(c, found)
	documentID, err := httpx.RequiredID(c, id.Document)
	missing := found.Take(err)
	if err = found.Err(); err == nil { // what is wrong with the question, before whether there is what it asks for
		err = missing
	}
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	switch {
	case asked.content:
		h.sendDocument(c, documentID)
	case asked.page != nil:
		h.showPage(c, documentID, *asked.page)
	case asked.chunk != nil:
		h.showChunk(c, documentID, *asked.chunk)
	default:
		doc, err := h.KnowledgeDB.DocumentByID(c.Request.Context(), httpx.Caller(c).OrganizationID, documentID)
		if err != nil {
			httpx.Fail(c, err)
			return
		}
		httpx.WriteJSON(c, http.StatusOK, shownDocument(doc))
	}
}

// sendDocument answers with the original, as it was sent or fetched.
func (h *Handler) sendDocument(c *gin.Context, documentID string) {
	place, err := h.Downloads.Enter(transfer.OwnerFor(c), http.NewResponseController(c.Writer))
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer h.Downloads.Leave(place)
	doc, content, err := h.KnowledgeDB.OpenDocument(c.Request.Context(), httpx.Caller(c).OrganizationID, documentID)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer func() { _ = content.Close() }() // nothing was written to it
	file := domain.File{ID: doc.ID, Name: doc.Name, MIMEType: doc.MIMEType, Bytes: doc.Bytes}
	if doc.SHA256 != nil {
		file.SHA256 = *doc.SHA256
	}
	transfer.SendFile(c, file, documentCaching, content, place, h.Permit(c))
}

// showPage gives the text of a page, or the beginning of a long one. Pages are as large as files may be, and take their places.
func (h *Handler) showPage(c *gin.Context, documentID string, page int) {
	place, err := h.Downloads.Enter(transfer.OwnerFor(c), http.NewResponseController(c.Writer))
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer h.Downloads.Leave(place)
	shown, err := h.pageOfDocument(c, documentID, page)
	if err == nil {
		err = place.Extend(int64(2 * len(shown.Text))) // as passages it comes once more
	}
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	httpx.WriteJSON(c, http.StatusOK, shown)
}

// pageOfDocument reads a page. Of a document that is not ready, or has no such page, there is none.
func (h *Handler) pageOfDocument(c *gin.Context, documentID string, page int) (shown documentPage, err error) {
	doc, err := h.readyDocument(c, documentID)
	switch {
	case err != nil:
		return shown, err
	case doc.Pages == nil:
		return shown, apierr.New(apierr.NotFound, "the document has no pages: use chunk for one of its %d passages", doc.Chunks)
	case page > *doc.Pages:
		return shown, apierr.New(apierr.NotFound, "page %d does not exist: the document has %d", page, *doc.Pages)
	}
	org := httpx.Caller(c).OrganizationID
	passages, err := h.KnowledgeDB.DocumentPassages(c.Request.Context(), org, documentID, page, MaxPagePassages+1)
	if err != nil {
		return shown, err
	}
	shown = documentPage{DocumentID: doc.ID, Name: doc.Name, Page: page, Pages: doc.Pages, Truncated: len(passages) > MaxPagePassages}
	passages = passages[:min(len(passages), MaxPagePassages)]
	shown.Text, shown.Passages = textFor(passages), shownPassages(passages)
	return shown, nil
}

// showChunk gives a passage, and those before and behind it.
func (h *Handler) showChunk(c *gin.Context, documentID string, chunk int) {
	doc, err := h.readyDocument(c, documentID)
	if err == nil && chunk >= doc.Chunks {
		err = apierr.New(apierr.NotFound, "passage %d does not exist: the document has %d, and the first is 0", chunk, doc.Chunks)
	}
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	passages, err := h.KnowledgeDB.DocumentPassagesAround(c.Request.Context(), httpx.Caller(c).OrganizationID, documentID, chunk, 1)
	if err == nil && len(passages) == 0 { // it was replaced meanwhile
		err = noDocument()
	}
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	httpx.WriteJSON(c, http.StatusOK, documentPassages{DocumentID: doc.ID, Name: doc.Name, Passages: shownPassages(passages)})
}

// readyDocument gives a document that was read.
func (h *Handler) readyDocument(c *gin.Context, documentID string) (domain.Document, error) {
	doc, err := h.KnowledgeDB.DocumentByID(c.Request.Context(), httpx.Caller(c).OrganizationID, documentID)
	if err == nil && doc.Status != domain.DocumentReady {
		err = apierr.New(apierr.NotFound, "the document is %s: only ready documents have pages and passages", doc.Status)
	}
	return doc, err
}

func noDocument() error { return apierr.New(apierr.NotFound, "no such resource") }

// textFor is the text that passages were cut out of, each at its place. What stood between them is white space.
func textFor(passages []domain.Passage) string {
	var out strings.Builder
	at := 0 // characters written
	for _, p := range passages {
		text := p.Text
		for ; at < p.StartIndex && at > 0; at++ {
			out.WriteByte('\n')
		}
		for ; at > p.StartIndex && text != ""; at-- { // it overlaps with those before
			_, size := utf8.DecodeRuneInString(text)
			text = text[size:]
		}
		out.WriteString(text)
		at = p.EndIndex
	}
	return out.String()
}

// shownPassages are passages as callers see them: lists are never null.
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
