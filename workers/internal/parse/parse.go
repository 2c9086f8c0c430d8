package parse

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"mime"
	"runtime/debug"

	"parley/workers/internal/document"
)

// Limits bound the text that is read from a document. A zero field has its default value. A
// document that exceeds a limit fails; its text is not truncated.
type Limits struct {
	Pages  int   // default 2,000
	Blocks int   // default 500,000
	Text   int64 // bytes of text; default 32 MiB
}

// Input is a document to be read. All fields except Limits come from the sender, so none is
// trusted.
type Input struct {
	Name     string // the document's name, given by the sender; used only to distinguish text formats
	MIMEType string // the type that the sender declared; Parse replaces it with the detected type
	Charset  string // the encoding that the sender declared, or ""; Parse sets it from MIMEType
	// Content is the whole document. Readers must not change it.
	Content []byte
	Limits  Limits
}

// Reader reads documents of one format. It writes the text to out, and returns the document's
// title, language and notes; Parse sets the type and cleans the rest. A reader of a format with
// pages should check ctx before each page.
//
// If a Reader can state the problem with a document, it returns a *document.Failure. Any other
// error means that the document is damaged. The message of such an error is not shown.
type Reader func(ctx context.Context, in Input, out *Writer) (document.Info, error)

// Formats contains the readers by MIME type.
type Formats map[string]Reader

// With returns a copy of f that uses the reader read for the type mimeType.
func (f Formats) With(mimeType string, read Reader) Formats {
	all := make(Formats, len(f)+1)
	maps.Copy(all, f)
	all[mimeType] = read
	return all
}

// Parse reads a document, whose format it detects from the content. The argument out receives the
// blocks while the document is read, so some blocks may have been emitted when Parse fails.
//
// Parse returns an error of ctx, and an error of the function that receives out's events,
// unchanged. Any other error is a *document.Failure. A document without text fails with the code
// no_text.
func Parse(ctx context.Context, in Input, out *Writer, formats Formats) (document.Info, error) {
	kind, err := detect(in)
	if err != nil {
		return document.Info{}, err
	}

	// A document whose format has no reader is rejected with a message that suggests a conversion.
	read, ok := formats[kind.mimeType]
	if !ok {
		return document.Info{}, unsupported(kind.mimeType)
	}

	// The declared type may contain the charset, which the content often does not state.
	if _, params, err := mime.ParseMediaType(in.MIMEType); err == nil && in.Charset == "" {
		in.Charset = params["charset"]
	}
	in.MIMEType = kind.mimeType

	info, err := readSafely(ctx, in, out, read)
	if err == nil {
		err = out.finish()
	}
	if err != nil {
		return document.Info{}, explain(ctx, err, out)
	}

	// Readers return the title and the language as they are in the document, so both are cleaned
	// here.
	info.MIMEType = kind.mimeType
	info.Title, info.Language = Line(info.Title, maxTitle), languageTag(info.Language)
	if info.Pages == 0 {
		info.Pages = out.pages
	}
	if kind.note != "" {
		info.Notes = append([]string{kind.note}, info.Notes...)
	}
	return info, nil
}

// panicked is the error for a panic in a reader. Libraries may panic on damaged files. The document
// then fails with the code damaged.
type panicked struct {
	value any
	// stack is the stack of the goroutine at the time of the panic.
	stack []byte
}

// Error returns the value and the stack of the panic, which appear only in logs.
func (p *panicked) Error() string { return fmt.Sprintf("reader panicked: %v\n%s", p.value, p.stack) }

// readSafely calls a reader and converts a panic to an error.
func readSafely(ctx context.Context, in Input, out *Writer, read Reader) (info document.Info, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicked{value: v, stack: debug.Stack()}
		}
	}()
	if err := ctx.Err(); err != nil {
		return document.Info{}, err
	}
	return read(ctx, in, out)
}

// explain converts an error to an error that may be shown to the person who uploaded the document.
// It hides the errors of libraries, whose texts are for developers.
func explain(ctx context.Context, err error, out *Writer) error {
	var failure *document.Failure
	switch {
	// Check out.broken first: it contains the error of the function that receives events. Readers
	// return this error as if the document had caused it.
	case out.broken != nil:
		return out.broken
	case errors.As(err, &failure):
		return failure
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		return &document.Failure{Code: document.Damaged, Message: "The document is damaged: it could not be read completely."}
	}
}
