package workers

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"parley/shared/secrets"
	"parley/shared/store/knowledgedb"
	"parley/workers/internal/document"
	"parley/workers/internal/embed"
	"parley/workers/internal/extract"
	"parley/workers/internal/ingest"
	"parley/workers/internal/pageserver"
	"parley/workers/internal/picture"
	"parley/workers/internal/tool/attachment"
)

// setUpReader sets up the reader of documents. Without a sandbox, there is no reader. Each document
// is read by a process of its own in a sandbox.
func (w *Workers) setUpReader() {
	if w.isolation.backend == nil {
		return // setUpSandbox has already logged the reason
	}

	w.extractor = &documentReader{by: extract.Open(w.isolation.backend, extract.Config{
		// The errors passed to Report never contain text of documents. The output passed to Detail
		// may contain text of documents, so it is logged only at the level debug.
		Report: func(err error) { w.deps.Log.Error().Err(err).Msg("document reader failed") },
		Detail: func(why error, said string) {
			w.deps.Log.Debug().Err(why).Str("said", said).Msg("output of a document reader")
		},
	})}
}

// setUpPages sets up the server that renders pages of documents for ingresses. Without a sandbox,
// this worker has no such server.
func (w *Workers) setUpPages(signer *secrets.Signer) (err error) {
	if w.extractor == nil {
		return nil
	}
	w.pages, err = pageserver.New(pageserver.Deps{
		Bus: w.deps.Bus, Documents: w.deps.Store.Knowledge, Renderer: w.extractor.by, Verifier: signer,
		Tracer: w.deps.Tracer, Metrics: w.deps.Metrics, Log: w.deps.Log,
	})
	return err
}

// setUpIngest sets up the processing of documents. Without a sandbox, this worker processes no
// documents. They then wait for a worker with a sandbox.
func (w *Workers) setUpIngest() error {
	if w.extractor == nil {
		return nil
	}

	st := w.deps.Store
	deps := ingest.Deps{
		Claims: st.Knowledge, Contents: st.Knowledge, Uploads: st.Blobs, Index: st.Knowledge,
		Extractor: w.extractor,
		Client:    w.outbound.HTTP(ingest.FetchOptions), Bus: w.deps.Bus, Metrics: w.deps.Metrics, Log: w.deps.Log,
	}
	// Assign only a non-nil *Embedder, because an interface that contains a nil pointer is not nil.
	if w.embedder != nil {
		deps.Embedder = w.embedder
	}

	var err error
	w.ingester, err = ingest.New(ingest.Config{
		Concurrency: w.cfg.IngestConcurrency,
		Short:       ingest.ShortLane,
		Limits:      knowledgedb.DocumentLimits{Documents: w.cfg.DocumentsPerOrganization, Bytes: w.cfg.DocumentBytesPerOrganization},
	}, deps)
	return err
}

// attachmentReader returns the reader of attachments, or nil if there is no sandbox.
func (w *Workers) attachmentReader() attachment.Reader {
	if w.extractor == nil {
		return nil
	}
	return attachmentReader{w.extractor.by}
}

// attachmentReader adapts the extractor to the interface that package attachment requires. Package
// attachment and the agent workers therefore need not import package extract.
type attachmentReader struct {
	by *extract.Extractor
}

// Read reads a document, and calls the argument each with every event, in order.
func (r attachmentReader) Read(
	ctx context.Context, name, mimeType string, content []byte, each func(document.Event) error,
) (document.Info, error) {
	return r.by.Read(ctx, extract.Document{Name: name, MIMEType: mimeType, Content: content}, extract.Limits{}, each)
}

// Image converts an image and, if recognize is true, reads its text.
func (r attachmentReader) Image(ctx context.Context, content []byte, recognize bool) (picture.Picture, string, error) {
	image, err := r.by.Image(ctx, content, recognize)
	return image.Picture, image.Text, err
}

// documentReader adapts the extractor to the interface that package ingest requires, so that
// package ingest need not import package extract.
type documentReader struct {
	by *extract.Extractor
}

// Read reads a document, and calls the argument each with every event, in order.
func (r *documentReader) Read(ctx context.Context, from ingest.Source, each func(document.Event) error) (document.Info, error) {
	d := extract.Document{Name: from.Name, MIMEType: from.MIMEType, Content: from.Content, Short: from.Short, OnCPUTime: from.OnCPUTime}
	return r.by.Read(ctx, d, extract.Limits{}, each)
}

// readers contains the versions of the programs that read documents. These are the programs that
// sandboxes contain. If a program is missing, its version is "".
type readers struct {
	poppler, tesseract string
	languages          []string // languages that tesseract recognizes
}

// systemDirs contains the folders of the system whose programs a sandbox can run.
var systemDirs = []string{"/usr/bin", "/usr/local/bin"}

// askTime is the time limit for running a program to find out its version or its languages.
const askTime = 5 * time.Second

// findReaders finds out the versions of the programs that read documents, and tesseract's
// languages. It runs each program.
func findReaders() (r readers) {
	var asking sync.WaitGroup
	asking.Go(func() { r.poppler = versionIn(ask("pdftotext", "-v")) })
	asking.Go(func() { r.tesseract = versionIn(ask("tesseract", "--version")) })
	asking.Go(func() { r.languages = languagesIn(ask("tesseract", "--list-langs")) })
	asking.Wait()
	return r
}

// ask runs a program with one argument and returns its output. If the program cannot be run, it
// returns "".
func ask(program, argument string) string {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	for _, dir := range systemDirs {
		// Do not search PATH, because only programs that are visible in sandboxes can be used.
		path := filepath.Join(dir, program)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		out, err := exec.CommandContext(ctx, path, argument).CombinedOutput()
		if err != nil {
			return ""
		}
		return string(out)
	}
	return ""
}

// versionIn returns the major and minor part of the first version number in a text, for example
// "22.12" for 22.12.0.
func versionIn(says string) string {
	for word := range strings.FieldsSeq(says) {
		// Some programs print their version as "v5.3.0".
		if word = strings.TrimPrefix(word, "v"); word == "" || word[0] < '0' || word[0] > '9' {
			continue
		}
		parts := strings.SplitN(word, ".", 3)
		return strings.Join(parts[:min(2, len(parts))], ".")
	}
	return ""
}

// languagesIn parses tesseract's list of languages, which begins with a heading line. It omits
// "osd", which is not a language.
func languagesIn(says string) []string {
	_, list, _ := strings.Cut(strings.TrimSpace(says), "\n")
	return slices.DeleteFunc(strings.Fields(list), func(l string) bool { return l == "osd" })
}

// ocr returns tesseract's name, version and languages as text.
func (r readers) ocr() string {
	switch {
	case r.tesseract == "":
		return ""
	case len(r.languages) == 0:
		return "tesseract " + r.tesseract
	default:
		return "tesseract " + r.tesseract + " (" + strings.Join(r.languages, ", ") + ")"
	}
}

// capabilities returns one entry for each program.
func (r readers) capabilities() []Capability {
	return []Capability{
		{Name: "poppler", State: r.poppler, Ok: r.poppler != ""},
		{Name: "tesseract", State: strings.TrimPrefix(r.ocr(), "tesseract "), Ok: r.tesseract != ""},
	}
}

// documentsCapability describes the programs that read documents. noSandbox is the reason why there
// is no sandbox, or nil if there is one.
func documentsCapability(noSandbox error, r readers) Capability {
	c := Capability{Name: "documents", Ok: true}
	switch {
	case errors.Is(noSandbox, errSandboxOff):
		return Capability{Name: c.Name, State: "none: SANDBOX is off, and reading documents needs a sandbox"}
	case noSandbox != nil:
		return Capability{Name: c.Name, State: "none: no sandbox is available for reading documents"}
	// Without poppler, no PDF can be read. Without tesseract, only scanned pages cannot be read.
	case r.poppler == "":
		return Capability{Name: c.Name, State: "all except PDF: poppler is missing"}
	case r.tesseract == "":
		c.State = "poppler " + r.poppler + "; no tesseract: scanned pages cannot be read"
	default:
		c.State = "poppler " + r.poppler + ", " + r.ocr()
	}
	return c
}

// embeddingsCapability describes the embeddings model. If no model is configured, the argument
// model is "".
func embeddingsCapability(model string) Capability {
	return Capability{Name: "embeddings", State: cmp.Or(model, "none: documents are searched by words only"), Ok: true}
}

// surveyEmbeddings returns the embeddings capability for the settings. If the settings are invalid,
// the entry contains the error.
func surveyEmbeddings(cfg Config) Capability {
	e, err := embed.New(embed.Config{Model: cfg.EmbeddingsModel, OpenAIAPIKey: cfg.OpenAIAPIKey, OpenAIBaseURL: cfg.OpenAIBaseURL})
	if err != nil {
		return Capability{Name: "embeddings", State: oneLine(err)}
	}
	defer e.Close()
	return embeddingsCapability(e.Model())
}
