package document

import "parley/shared/domain"

// Kind is the kind of a block.
type Kind string

// The kinds of blocks.
const (
	Heading   Kind = "heading"
	Paragraph Kind = "paragraph"
	Item      Kind = "item"     // item of a list
	Row       Kind = "row"      // row of a table: its cells, separated by " | "
	Verbatim  Kind = "verbatim" // text whose line breaks and spaces matter, such as code
)

// Block is a piece of a document's text. A reader emits the blocks in reading order.
type Block struct {
	Kind  Kind   `json:"k"`
	Level int    `json:"l,omitempty"` // headings only: from 1, the outermost, to 6
	Head  bool   `json:"h,omitempty"` // rows only: it contains the column names of the rows after it
	Page  int    `json:"p,omitempty"` // page number from 1; 0 if the format has no pages
	Text  string `json:"t"`
	// Box is the position of the block on its page; nil if the format has no positions.
	Box *domain.Box `json:"b,omitempty"`
}

// Event is one message from the reader of a document. Exactly one field is set.
type Event struct {
	Pages   *int     `json:"pages,omitempty"` // number of pages; sent before the first block if it is known then
	Done    *int     `json:"done,omitempty"`  // number of a page all of whose blocks were sent
	Block   *Block   `json:"block,omitempty"`
	End     *Info    `json:"end,omitempty"`
	Failure *Failure `json:"failure,omitempty"`
}

// Info describes a document that was read completely.
type Info struct {
	MIMEType string   `json:"mimeType"`           // as detected from the content, not as declared
	Title    string   `json:"title,omitempty"`    // as stated in the document
	Language string   `json:"language,omitempty"` // as stated in the document, a BCP 47 tag
	Pages    int      `json:"pages,omitempty"`    // 0 if the format has no pages
	Notes    []string `json:"notes,omitempty"`    // full sentences about parts that were omitted
}

// Code is the reason why a document could not be processed.
type Code string

// The codes of failures. Some are reported by the reader, others only by the worker.
const (
	Unsupported   Code = "unsupported_format"
	Encrypted     Code = "password_protected"
	Damaged       Code = "damaged"
	NoText        Code = "no_text"         // the document has no text to search, not even in images
	NoOCR         Code = "ocr_unavailable" // the document has only images, and no program here recognizes text in images
	TooLarge      Code = "too_large"       // more text, parts or nesting than is read
	TooManyPages  Code = "too_many_pages"
	LimitReached  Code = "limit_exceeded" // reading exceeded a limit, such as time or memory
	NotFetched    Code = "fetch_failed"
	NoEmbeddings  Code = "embeddings_unavailable"
	WorkerLost    Code = "worker_lost"
	NotProcessed  Code = "not_processed" // no worker could process it before its deadline
	QuotaExceeded Code = "quota_exceeded"
	Internal      Code = "internal"
)

// Failure is the reason why a document could not be processed. Message is written for the person
// who uploaded the document.
type Failure struct { //nolint:errname // a result that is sent to the uploader, not only an error
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Retry   bool   `json:"retry,omitempty"` // another attempt may succeed
}

// Error returns the message.
func (f *Failure) Error() string { return f.Message }
