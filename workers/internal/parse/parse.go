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

// Limits bound what is read of a document; a zero means the default.
type Limits struct {
	Pages  int   // 2,000
	Blocks int   // 500,000
	Text   int64 // bytes of text; 32 MiB
}

// Input is a document that is to be read.
type Input struct {
	Name     string // as its sender called it: decides between kinds of text only
	MIMEType string // as its sender said; Parse makes it what the content is before a reader sees it
	Charset  string // the encoding that the sender said, "" for none: Parse takes it from the type
	Content  []byte
	Limits   Limits
}

// Reader reads documents of one format. Its errors are *document.Failure where it knows what is wrong; any other means that the
// document is damaged.
type Reader func(ctx context.Context, in Input, out *Writer) (document.Info, error)

// Formats are the readers by the MIME types of what they read.
type Formats map[string]Reader

// With adds a reader, or puts it in the place of another.
func (f Formats) With(mimeType string, read Reader) Formats {
	all := make(Formats, len(f)+1)
	maps.Copy(all, f)
	all[mimeType] = read
	return all
}

// Parse reads a document: the content decides what it is. Every error is a *document.Failure, but for those of the writer's
// receiver and of the context, which come back as they are.
func Parse(ctx context.Context, in Input, out *Writer, formats Formats) (document.Info, error) {
	kind, err := detect(in)
	if err != nil {
		return document.Info{}, err
	}
	read, ok := formats[kind.mimeType]
	if !ok {
		return document.Info{}, unsupported(kind.mimeType)
	}
	if _, params, err := mime.ParseMediaType(in.MIMEType); err == nil && in.Charset == "" {
		in.Charset = params["charset"]
	}
	in.MIMEType = kind.mimeType
	info, err := guarded(ctx, in, out, read)
	if err == nil {
		err = out.finish()
	}
	if err != nil {
		return document.Info{}, explain(ctx, err, out)
	}
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

// panicked is a reader's panic: libraries that stumble over a broken file do that.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("reader panicked: %v\n%s", p.value, p.stack) }

func guarded(ctx context.Context, in Input, out *Writer, read Reader) (info document.Info, err error) {
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

// explain makes an error one that can be told to the document's sender.
func explain(ctx context.Context, err error, out *Writer) error {
	var failure *document.Failure
	switch {
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
