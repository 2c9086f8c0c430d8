package extract

import (
	"cmp"
	"time"

	"parley/shared/domain"
	"parley/workers/internal/document"
	"parley/workers/internal/parse"
)

// Paths in the sandbox.
const (
	// These are the paths in the sandbox. None of them exists on the host, so mounting files there
	// hides no file that the programs need.
	programPath  = "/parley/reader"
	documentPath = "/parley/document"
	orderPath    = "/parley/order.json"
)

// protocol is the reader's greeting. It contains the version of the protocol, because an update may
// have replaced the executable with another version.
const protocol = "parley-reader 1\n"

// textCPU is the limit of processor time for text formats. Markdown, HTML, plain text, CSV and JSON
// are read in one pass, which takes a few seconds for 20 MiB. PDF and the archive formats may use
// all of Limits.CPU.
const textCPU = 20 * time.Second

// Limits bound the reading of a document. A zero field has its default value.
type Limits struct {
	CPU       time.Duration `json:"cpu"`       // default 2 minutes; at most textCPU for a text format
	Wall      time.Duration `json:"wall"`      // default 5 minutes
	Memory    int64         `json:"memory"`    // bytes, default 1 GiB
	Files     int64         `json:"files"`     // bytes, default 256 MiB
	Processes int           `json:"processes"` // processes and threads, default 128
	Pages     int           `json:"pages"`     // default 2,000, more than a book has; a longer file often consists of many documents
	Blocks    int           `json:"blocks"`    // default 500,000
	Text      int64         `json:"text"`      // bytes, default 32 MiB
}

// orDefaults returns the limits with zero fields replaced by their defaults.
func (l Limits) orDefaults() Limits {
	return Limits{
		CPU: cmp.Or(l.CPU, 2*time.Minute), Wall: cmp.Or(l.Wall, 5*time.Minute),
		Memory: cmp.Or(l.Memory, 1<<30), Files: cmp.Or(l.Files, 256<<20), Processes: cmp.Or(l.Processes, 128),
		Pages: cmp.Or(l.Pages, 2000), Blocks: cmp.Or(l.Blocks, 500_000), Text: cmp.Or(l.Text, 32<<20),
	}
}

// shortCPU is the limit of processor time for a document with the option Document.Short. A short
// document usually needs only a fraction of it.
const shortCPU = time.Second

// forContent returns the limits for a document. They are lower if its content is text.
func (l Limits) forContent(content []byte) Limits {
	l = l.orDefaults()
	if parse.IsText(content) {
		l.CPU = min(l.CPU, textCPU)
	}
	return l
}

// order is the JSON form of a request to a reader. The document's content is a separate file.
type order struct {
	Name     string `json:"name"`
	MIMEType string `json:"mimeType"`
	Limits   Limits `json:"limits"`
	NoOCR    bool   `json:"noOcr"`
	Image    bool   `json:"image,omitempty"` // the content is an image to be converted, and not a document
	// Picture is a page number. If it is not 0, the reader sends a picture of that page and no
	// events.
	Picture int `json:"picture,omitempty"`
}

// pictureReply is the line that the reader sends in reply to a request for a picture. Exactly one
// field is set.
type pictureReply struct {
	Picture *domain.PagePicture `json:"picture,omitempty"`
	Failure *document.Failure   `json:"failure,omitempty"`
}

// limitReached returns the failure for a document that has exceeded a limit. The argument what
// names the limit, for example "memory".
func limitReached(what string) *document.Failure {
	return &document.Failure{Code: document.LimitReached, Message: "Reading the document used more " + what + " than allowed."}
}
