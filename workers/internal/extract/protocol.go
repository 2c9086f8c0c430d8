package extract

import (
	"cmp"
	"time"

	"parley/workers/internal/document"
	"parley/workers/internal/parse"
)

// Where the sandbox has what the reader needs.
const (
	programPath  = "/parley/reader"
	documentPath = "/parley/document"
	orderPath    = "/parley/order.json"
)

// protocol is what both sides speak. The program at our path may have been replaced by another version's.
const protocol = "parley-reader 1\n"

// textCPU is the processor time that a text format may take: Markdown, HTML, plain text, CSV and JSON are read in one pass, and
// 20 MiB of them take a few seconds. PDF and the archive formats have the whole of Limits.CPU.
const textCPU = 20 * time.Second

// Limits bound the reading of a document; a zero means the default.
type Limits struct {
	CPU       time.Duration `json:"cpu"`       // 2 minutes; a text format has textCPU at most
	Wall      time.Duration `json:"wall"`      // 5 minutes
	Memory    int64         `json:"memory"`    // 1 GiB
	Files     int64         `json:"files"`     // 256 MiB
	Processes int           `json:"processes"` // 128, threads among them
	Pages     int           `json:"pages"`     // 2,000
	Blocks    int           `json:"blocks"`    // 500,000
	Text      int64         `json:"text"`      // 32 MiB
}

func (l Limits) orDefaults() Limits {
	return Limits{
		CPU: cmp.Or(l.CPU, 2*time.Minute), Wall: cmp.Or(l.Wall, 5*time.Minute),
		Memory: cmp.Or(l.Memory, 1<<30), Files: cmp.Or(l.Files, 256<<20), Processes: cmp.Or(l.Processes, 128),
		Pages: cmp.Or(l.Pages, 2000), Blocks: cmp.Or(l.Blocks, 500_000), Text: cmp.Or(l.Text, 32<<20),
	}
}

// shortCPU is what a reader of a short document may take, whatever its limits are: several times what one takes.
const shortCPU = time.Second

// of gives the limits of one document.
func (l Limits) of(content []byte) Limits {
	l = l.orDefaults()
	if parse.IsText(content) {
		l.CPU = min(l.CPU, textCPU)
	}
	return l
}

// order is what the reader is told, besides the document.
type order struct {
	Name     string `json:"name"`
	MIMEType string `json:"mimeType"`
	Limits   Limits `json:"limits"`
	NoOCR    bool   `json:"noOcr"`
}

// reached is the failure of a document that took too much of something.
func reached(what string) *document.Failure {
	return &document.Failure{Code: document.LimitReached, Message: "Reading the document used more " + what + " than allowed."}
}
