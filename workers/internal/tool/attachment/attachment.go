package attachment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/store/blobdb"
	"parley/shared/store/lease"
	"parley/workers/internal/document"
	"parley/workers/internal/picture"
	"parley/workers/internal/tool"
)

const (
	// maxText is the maximum size of a document's text in bytes. Text beyond this limit is omitted.
	maxText = 512 << 10
	queued  = 16 // number of calls that may wait, for each slot
)

// Reader reads untrusted files in sandboxes. An error that is caused by the file is a
// *document.Failure.
type Reader interface {
	// Read calls its argument each with every event of a document. Image converts an image and, if
	// recognize is true, reads its text.
	Read(ctx context.Context, name, mimeType string, content []byte, each func(document.Event) error) (document.Info, error)
	Image(ctx context.Context, content []byte, recognize bool) (converted picture.Picture, text string, err error)
}

// Store stores the files of runs, and the images and texts that were prepared from them. The result
// kept is false if the run no longer belongs to the caller's attempt.
type Store interface {
	HoldAttachments(ctx context.Context, held lease.Held, ids []string) (files []blobdb.StoredAttachment, kept bool, err error)
	OpenFile(ctx context.Context, org, id string) (domain.File, io.ReadSeekCloser, error)
	SetPrepared(ctx context.Context, held lease.Held, fileID string, p blobdb.Prepared) (kept bool, err error)
}

// Arguments are the arguments of a call that prepares an attachment. The runner writes them, never
// a model.
type Arguments struct {
	FileID    string `json:"fileId"`
	Recognize bool   `json:"recognize"` // true if the text in an image must be recognized, because the model does not accept images
}

// Backend prepares attachments. It is safe for concurrent use. Each tool worker has one Backend.
type Backend struct {
	reader Reader
	store  Store
	slots  int
}

// New creates a backend. If reader is nil, because there is no sandbox, every call fails. slots is
// the number of attachments prepared at the same time; 0 means one for each core.
func New(reader Reader, store Store, slots int) *Backend {
	if slots == 0 {
		slots = max(runtime.GOMAXPROCS(0), 2)
	}
	return &Backend{reader: reader, store: store, slots: slots}
}

// Kind returns the kind of tool call that this backend executes.
func (b *Backend) Kind() string { return contract.ToolAttachment }

// Serving returns how many attachments are prepared simultaneously, and how many calls may wait.
func (b *Backend) Serving() (slots, queue int) { return b.slots, queued * b.slots }

// Call prepares one attachment of the run. Its output is empty, because the result is stored with
// the file. A call for a file that is already prepared does nothing, so calls may be repeated.
//
// It returns tool.ErrStale if the run belongs to another attempt. A problem of the file is a
// *tool.Error with a message for the caller. Failures of the service are retryable.
func (b *Backend) Call(ctx context.Context, req tool.Request) (tool.Result, error) {
	if b.reader == nil {
		return tool.Result{}, &tool.Error{Message: "Attachments cannot be read: this deployment has no sandbox."}
	}
	var args Arguments
	if err := json.Unmarshal(req.Call.Arguments, &args); err != nil {
		return tool.Result{}, &tool.Error{Message: "The arguments are not valid.", Err: err}
	}
	held := lease.Held{RunID: req.RunID, OrganizationID: req.OrganizationID, Fence: req.Fence}
	found, kept, err := b.store.HoldAttachments(ctx, held, []string{args.FileID})
	switch {
	case err != nil:
		return tool.Result{}, unavailable(err)
	case !kept:
		return tool.Result{}, tool.ErrStale
	// A run may prepare only its own files, even though it may read all files of its session.
	case len(found) == 0 || found[0].RunID != req.RunID:
		return tool.Result{}, &tool.Error{Message: "The file no longer exists."}
	}

	return b.prepare(ctx, req, held, found[0], args.Recognize)
}

// prepare converts or reads a file of the run, unless an earlier call did so, and records the
// result. An image that was prepared without its text is read again if recognize is true.
func (b *Backend) prepare(
	ctx context.Context, req tool.Request, held lease.Held, file blobdb.StoredAttachment, recognize bool,
) (tool.Result, error) {
	done := tool.Result{Output: json.RawMessage("{}")}
	image := domain.Attachment{MediaType: file.MIMEType}.IsImage()
	if file.Prepared != "" && (!image || !recognize || file.TextID != "") {
		return done, nil
	}
	content, err := b.read(ctx, req.OrganizationID, file.File)
	if err != nil {
		return tool.Result{}, unavailable(err)
	}

	var made blobdb.Prepared
	if image {
		made, err = b.convert(ctx, req, file, content, recognize)
	} else {
		made, err = b.readText(ctx, req, file, content)
	}
	if err != nil {
		return tool.Result{}, failed(ctx, file.Name, err)
	}

	kept, err := b.store.SetPrepared(ctx, held, file.ID, made)
	switch {
	case err != nil:
		return tool.Result{}, unavailable(err)
	case !kept:
		return tool.Result{}, tool.ErrStale
	}
	return done, nil
}

// unavailable returns the error for a fault of the service. Such an error makes the run retry
// later.
func unavailable(err error) error {
	return &tool.Error{Message: "The attachment cannot be read at the moment.", Retryable: true, Err: err}
}

// failed returns the error for an attachment that could not be prepared. name is the file's name.
// If ctx has ended, failed returns the cause of ctx. It returns tool.ErrStale unchanged.
func failed(ctx context.Context, name string, err error) error {
	failure, is := errors.AsType[*document.Failure](err)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx) //nolint:wrapcheck // the call was cancelled
	case errors.Is(err, tool.ErrStale):
		return err
	case !is:
		return unavailable(err)
	}
	message := fmt.Sprintf("The attachment %q could not be used. %s", name, failure.Message)
	return &tool.Error{Message: message, Retryable: failure.Retry, Err: err}
}

// read reads the content of a file, at most domain.MaxAttachmentBytes bytes.
func (b *Backend) read(ctx context.Context, org string, file domain.File) ([]byte, error) {
	_, content, err := b.store.OpenFile(ctx, org, file.ID)
	if err != nil {
		return nil, err //nolint:wrapcheck // reported as unavailable
	}
	defer func() { _ = content.Close() }() // no data can be lost, because the file was only read
	return io.ReadAll(io.LimitReader(content, domain.MaxAttachmentBytes))
}

// convert converts an image and, if requested, reads its text. The text is stored as a source of
// the run. If the image was converted before, only its text is read.
func (b *Backend) convert(
	ctx context.Context, req tool.Request, file blobdb.StoredAttachment, content []byte, recognize bool,
) (made blobdb.Prepared, err error) {
	image, text, err := b.reader.Image(ctx, content, recognize)
	if err != nil {
		return made, err //nolint:wrapcheck // a failure in words for the caller
	}
	if made = (blobdb.Prepared{Kind: image.MediaType, Image: image.Content}); file.Prepared != "" {
		made = blobdb.Prepared{Kind: file.Prepared}
	}
	if text != "" {
		made.TextID, err = req.Keep(ctx, domain.Source{Text: text})
	}
	return made, err
}

// pageMark precedes the text of each page. A document cannot imitate the mark, because the reader
// removes control characters from the text.
const pageMark = "\f[page %d]\n"

// readText reads the text of a document and stores it as a source of the run. Text beyond maxText
// bytes is omitted, and the source is marked as truncated. The source has no title, because files
// with other names can have the same text, which is stored only once.
func (b *Backend) readText(
	ctx context.Context, req tool.Request, file blobdb.StoredAttachment, content []byte,
) (made blobdb.Prepared, err error) {
	var text strings.Builder
	page, omitted := 0, false
	info, err := b.reader.Read(ctx, file.Name, file.MIMEType, content, func(e document.Event) error {
		// Text beyond the limit is read and ignored.
		block := e.Block
		if block == nil || omitted {
			return nil
		}
		if block.Page != page {
			page = block.Page
			fmt.Fprintf(&text, pageMark, page)
		}
		if omitted = text.Len()+len(block.Text) > maxText; !omitted {
			text.WriteString(rendered(*block))
		}
		return nil
	})
	if err != nil {
		return made, err //nolint:wrapcheck // a failure in words for the caller
	}

	id, err := req.Keep(ctx, domain.Source{Language: info.Language, Text: strings.TrimSpace(text.String()), Truncated: omitted})
	return blobdb.Prepared{Kind: blobdb.PreparedText, TextID: id}, err
}

// rendered returns a block of a document as Markdown.
func rendered(b document.Block) string {
	switch b.Kind {
	case document.Heading:
		return strings.Repeat("#", b.Level) + " " + b.Text + "\n\n"
	case document.Item:
		return "- " + b.Text + "\n"
	case document.Row:
		return b.Text + "\n"
	default:
		return b.Text + "\n\n"
	}
}
