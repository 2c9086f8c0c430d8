package domain

// DocumentStatus is the state of a document.
type DocumentStatus string

// The states of a document: queued → processing → ready | failed. If the worker is lost or a
// transient error ends the attempt, the document returns from processing to queued. A document that
// is replaced or retried is also queued again.
const (
	DocumentQueued     DocumentStatus = "queued"
	DocumentProcessing DocumentStatus = "processing"
	DocumentReady      DocumentStatus = "ready"
	DocumentFailed     DocumentStatus = "failed"
)

// DocumentStatuses lists every state, for validation of filters.
var DocumentStatuses = []DocumentStatus{DocumentQueued, DocumentProcessing, DocumentReady, DocumentFailed}

// Document is a document that an organization's agents may search and cite. The HTTP API uses its
// JSON form.
type Document struct {
	ID       string            `json:"id"`
	Name     string            `json:"name"`
	MIMEType string            `json:"mimeType"` // the type that the sender declared; after processing, the detected type
	Bytes    int64             `json:"bytes"`
	SHA256   *string           `json:"sha256"` // SHA-256 of the content, in hex; nil if the content is not fetched yet
	URL      *string           `json:"url"`    // the source of the content; nil if the content was uploaded
	Status   DocumentStatus    `json:"status"`
	Error    *DocumentError    `json:"error"`
	Pages    *int              `json:"pages"`     // nil: not known yet, or the format has no pages
	Done     int               `json:"pagesDone"` // processed pages
	Chunks   int               `json:"chunks"`
	Language string            `json:"language"` // BCP 47; "" if unknown
	Notes    []string          `json:"notes"`    // sentences that say which parts of the content were omitted
	Metadata map[string]string `json:"metadata"`
	// CreatedAt is the time when the document was first uploaded. UpdatedAt is the time when it was
	// last replaced, renamed or processed.
	CreatedAt Time `json:"createdAt"`
	UpdatedAt Time `json:"updatedAt"`
}

// Sample is a sample document, with which new users try agents that search documents. Organizations
// add copies of the samples to their documents.
type Sample struct {
	Name     string
	MIMEType string
	Content  []byte
}

// DocumentError is the reason why the processing of a document failed, in words for the user.
type DocumentError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Passage is a piece of a document that can be found and cited.
type Passage struct {
	DocumentID string   `json:"documentId"`
	Name       string   `json:"name"`     // name of the document
	Chunk      int      `json:"chunk"`    // number of the chunk in the document, from 0
	Page       *int     `json:"page"`     // page number, from 1; nil if the format has no pages
	Headings   []string `json:"headings"` // headings above it, outermost first
	Text       string   `json:"text"`
	// StartIndex and EndIndex are the passage's position, in Unicode code points, in the text of
	// the page, or in the text of the document if it has no pages.
	StartIndex int `json:"startIndex"`
	EndIndex   int `json:"endIndex"`
	// Box is the passage's position on the page, or nil if the format has no positions.
	Box *Box `json:"box"`
}

// Box is a rectangle on a page: left, top, right, bottom, in points (1/72 inch) from the upper
// left corner.
type Box [4]float64

// MIMETypePDF is the MIME type of the documents whose pages have pictures.
const MIMETypePDF = "application/pdf"

// PagePicture is a page of a PDF as a picture, with the words on it.
type PagePicture struct {
	MIMEType string     `json:"mimeType"` // image/png or image/jpeg
	Width    float64    `json:"width"`    // of the page, in points
	Height   float64    `json:"height"`
	Data     []byte     `json:"data"`
	Words    []PageWord `json:"words"` // in reading order; empty for a scanned page
}

// PageWord is a word on a page.
type PageWord struct {
	Text string `json:"text"`
	Box  Box    `json:"box"`
}

// Found is a passage found by a search.
type Found struct {
	Passage
	Score     float64  `json:"score"`     // above 0; better hits have higher scores; scores of different searches are not comparable
	MatchedBy []string `json:"matchedBy"` // some of text, trigram, vector
}
