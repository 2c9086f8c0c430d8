package document

import "parley/shared/domain"

// Kind is the kind of a block.
type Kind string

// Kinds of blocks.
const (
	Heading   Kind = "heading"
	Paragraph Kind = "paragraph"
	Item      Kind = "item"     // item of a list
	Row       Kind = "row"      // row of a table: its cells, separated by " | "
	Verbatim  Kind = "verbatim" // text whose line breaks and spaces are significant, such as code
)

// Block is a piece of a document's text. A reader emits the blocks in reading order.
type Block struct {
	Kind  Kind   `json:"k"`
	Level int    `json:"l,omitempty"` // level of a heading, from 1 (outermost) to 6
	Head  bool   `json:"h,omitempty"` // true for a row that contains the names of the columns
	Page  int    `json:"p,omitempty"` // page number from 1, or 0 if the format has no pages
	Text  string `json:"t"`
	// Box is the position of the block on its page, or nil if the format has no positions.
	Box *domain.Box `json:"b,omitempty"`
}

// Event is one message from the reader of a document. Exactly one field is set.
type Event struct {
	Pages   *int     `json:"pages,omitempty"` // number of pages; if known, it is sent before the first block
	Done    *int     `json:"done,omitempty"`  // number of a page; all blocks of the page have been sent
	Block   *Block   `json:"block,omitempty"`
	End     *Info    `json:"end,omitempty"`
	Failure *Failure `json:"failure,omitempty"`
}

// Info describes a document that has been read completely.
type Info struct {
	MIMEType string   `json:"mimeType"`           // as detected from the content, not as declared
	Title    string   `json:"title,omitempty"`    // as stated in the document
	Language string   `json:"language,omitempty"` // as stated in the document, a BCP 47 tag
	Pages    int      `json:"pages,omitempty"`    // 0 if the format has no pages
	Notes    []string `json:"notes,omitempty"`    // full sentences about parts that were omitted
}

// Code is the reason why a document could not be processed.
type Code string

// The codes of failures. Some are reported by the reader, and others only by the worker.
const (
	Unsupported   Code = "unsupported_format"
	Encrypted     Code = "password_protected"
	Damaged       Code = "damaged"
	NoText        Code = "no_text"         // the document contains no text, not even text in images
	NoOCR         Code = "ocr_unavailable" // the document contains only images, and no program that recognizes text is installed
	TooLarge      Code = "too_large"       // the document has more text, parts or nesting than the limits allow
	TooManyPages  Code = "too_many_pages"
	LimitReached  Code = "limit_exceeded" // reading the document exceeded a limit, such as the limit on time or memory
	NotFetched    Code = "fetch_failed"
	NoEmbeddings  Code = "embeddings_unavailable"
	WorkerLost    Code = "worker_lost"
	NotProcessed  Code = "not_processed" // no worker could process the document before its deadline
	QuotaExceeded Code = "quota_exceeded"
	Internal      Code = "internal"
)

// Failure is the reason why a document could not be processed. Message is for the person who
// uploaded the document.
type Failure struct { //nolint:errname // a result that is sent to the uploader, not only an error
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Retry   bool   `json:"retry,omitempty"` // true if another attempt may succeed
}

// Error returns the message.
func (f *Failure) Error() string { return f.Message }
