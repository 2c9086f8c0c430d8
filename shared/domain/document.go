package domain

// DocumentStatus is where a document stands.
type DocumentStatus string

// The states of a document: queued → processing → ready | failed, and from processing back to queued when a worker is lost or a
// cause that a retry can cure ended the attempt. Replacing it, and trying it again, begin anew.
const (
	DocumentQueued     DocumentStatus = "queued"
	DocumentProcessing DocumentStatus = "processing"
	DocumentReady      DocumentStatus = "ready"
	DocumentFailed     DocumentStatus = "failed"
)

// DocumentStatuses lists every state, for validation of filters.
var DocumentStatuses = []DocumentStatus{DocumentQueued, DocumentProcessing, DocumentReady, DocumentFailed}

// Document is a document of an organization's, which its agents may search and cite; its JSON form is the contract's.
type Document struct {
	ID       string            `json:"id"`
	Name     string            `json:"name"`
	MIMEType string            `json:"mimeType"` // what the sender said, and once it was read what it is
	Bytes    int64             `json:"bytes"`
	SHA256   *string           `json:"sha256"` // of the content, in hex; nil while it is to be fetched
	URL      *string           `json:"url"`    // where its content is fetched from; nil when it was sent
	Status   DocumentStatus    `json:"status"`
	Error    *DocumentError    `json:"error"`
	Pages    *int              `json:"pages"`     // nil: not known yet, or the format has none
	Done     int               `json:"pagesDone"` // of them, so far
	Chunks   int               `json:"chunks"`
	Language string            `json:"language"` // BCP 47, "" when unknown
	Notes    []string          `json:"notes"`    // what of it was left out, in full sentences
	Metadata map[string]string `json:"metadata"`
	// CreatedAt is when it was first sent, UpdatedAt when it was last changed: sent anew, named anew, or processed.
	CreatedAt Time `json:"createdAt"`
	UpdatedAt Time `json:"updatedAt"`
}

// DocumentError says why a document failed, in words made for whoever sent it.
type DocumentError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Passage is a piece of a document: what searches find, and what is indexed and cited.
type Passage struct {
	DocumentID string   `json:"documentId"`
	Name       string   `json:"name"`     // of the document
	Chunk      int      `json:"chunk"`    // its number in the document, from 0
	Page       *int     `json:"page"`     // from 1; nil when the format has no pages
	Headings   []string `json:"headings"` // above it, the outermost first
	Text       string   `json:"text"`
	// StartIndex and EndIndex are its place in the text of its page, or of the whole document when that has no pages, in Unicode
	// code points.
	StartIndex int `json:"startIndex"`
	EndIndex   int `json:"endIndex"`
	// Box is where it stands on its page: left, top, right, bottom in points from the upper left corner; nil when the format has
	// no such places.
	Box *Box `json:"box"`
}

// Box is a rectangle on a page: left, top, right, bottom, in points (1/72 inch) from the upper left corner.
type Box [4]float64

// Found is a passage that a search has found.
type Found struct {
	Passage
	Score     float64  `json:"score"`     // above 0; the best of a search comes first, and scores of two searches do not compare
	MatchedBy []string `json:"matchedBy"` // of text, trigram, vector
}
