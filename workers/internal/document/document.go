package document

import "parley/shared/domain"

// Kind is what a block is.
type Kind string

// The kinds of blocks.
const (
	Heading   Kind = "heading"
	Paragraph Kind = "paragraph"
	Item      Kind = "item"     // of a list
	Row       Kind = "row"      // of a table: its cells with " | " between them
	Verbatim  Kind = "verbatim" // lines and spaces count: code
)

// Block is a piece of a document's text, in reading order.
type Block struct {
	Kind  Kind   `json:"k"`
	Level int    `json:"l,omitempty"` // of a heading: 1 is the outermost, 6 the innermost
	Head  bool   `json:"h,omitempty"` // of a row: it names the columns of those behind it
	Page  int    `json:"p,omitempty"` // from 1; 0: the format has no pages
	Text  string `json:"t"`
	// Box is where it stands on its page; nil when the format has no such places.
	Box *domain.Box `json:"b,omitempty"`
}

// Event is one thing that whoever reads a document tells: exactly one of its fields is set.
type Event struct {
	Pages   *int     `json:"pages,omitempty"` // how many there are; told before the first block where it is known
	Done    *int     `json:"done,omitempty"`  // this page's blocks were all told
	Block   *Block   `json:"block,omitempty"`
	End     *Info    `json:"end,omitempty"`
	Failure *Failure `json:"failure,omitempty"`
}

// Info is what is known of a document at its end.
type Info struct {
	MIMEType string   `json:"mimeType"`           // what it is, whatever it was called
	Title    string   `json:"title,omitempty"`    // as it says itself
	Language string   `json:"language,omitempty"` // as it says itself: BCP 47
	Pages    int      `json:"pages,omitempty"`    // 0: the format has none
	Notes    []string `json:"notes,omitempty"`    // what was left out, in full sentences
}

// Code says why a document could not be read.
type Code string

// The codes of failures: those that reading ends with, and those that only processing knows.
const (
	Unsupported   Code = "unsupported_format"
	Encrypted     Code = "password_protected"
	Damaged       Code = "damaged"
	NoText        Code = "no_text"         // there is nothing to search, not even in images
	NoOCR         Code = "ocr_unavailable" // there are only images, and nothing here to read them with
	TooLarge      Code = "too_large"       // more text, parts or nesting than is read
	TooManyPages  Code = "too_many_pages"
	LimitReached  Code = "limit_exceeded" // reading it took more time or memory than it may
	NotFetched    Code = "fetch_failed"
	NoEmbeddings  Code = "embeddings_unavailable"
	WorkerLost    Code = "worker_lost"
	NotProcessed  Code = "not_processed" // nobody could process it until its deadline
	QuotaExceeded Code = "quota_exceeded"
	Internal      Code = "internal"
)

// Failure is why a document could not be read, in words made for whoever sent it.
type Failure struct { //nolint:errname // it goes from the reader to whoever sent the document
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Retry   bool   `json:"retry,omitempty"` // the cause may pass
}

// Error gives the message.
func (f *Failure) Error() string { return f.Message }
