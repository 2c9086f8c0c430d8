package knowledge

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/textproto"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/transfer"
	"parley/shared/apierr"
	"parley/shared/store/blobdb"
	"parley/shared/store/knowledgedb"
)

const (
	// MaxDocument is how many bytes a document may have.
	MaxDocument     = 20 << 20 // bytes of a document
	maxFormFiles    = 20
	maxFormParts    = 64
	maxFormHeader   = 8 << 10  // bytes of a part's header; a little more is read ahead
	maxFormMetadata = 64 << 10 // bytes
	// MaxForm is how many bytes a form with documents may have.
	MaxForm = maxFormFiles*MaxDocument + 1<<20
	// Of a form that is refused so much more is read, to report what else is wrong with it.
	maxFormRest = 1 << 20
	maxBoundary = 70 // RFC 2046

	partFile     = "file"
	partMetadata = "metadata"
)

// documentForm is a form that holds documents, read part by part.
type documentForm struct {
	in     *transfer.Upload
	parts  *multipart.Reader
	limit  int // files
	keep   func(content io.Reader) (blobdb.Upload, error)
	found  httpx.Problems
	unread int64 // bytes that may still be read once something is wrong

	files    []knowledgedb.NewDocument
	seen     int // files, whether or not they were taken
	metadata map[string]string
	told     bool // metadata came
}

// newDocumentForm opens the form that in is, by the request's Content-Type.
func newDocumentForm(
	in *transfer.Upload, contentType string, limit int, keep func(io.Reader) (blobdb.Upload, error),
) (*documentForm, error) {
	_, parameters, err := mime.ParseMediaType(contentType)
	boundary := parameters["boundary"]
	printable := strings.IndexFunc(boundary, func(r rune) bool { return r < ' ' || r > '~' }) < 0
	if err != nil || boundary == "" || len(boundary) > maxBoundary || !printable || strings.HasSuffix(boundary, " ") {
		return nil, apierr.Invalid(httpx.BodyPath, httpx.CodeInvalidValue,
			"must have a boundary of 1 to %d characters", maxBoundary)
	}
	return &documentForm{in: in, parts: multipart.NewReader(in, boundary), limit: limit, keep: keep, unread: maxFormRest}, nil
}

// read takes all parts of the form. Its error lists every fault that it met.
func (f *documentForm) read() error {
	for n := 0; f.unread >= 0; n++ {
		part, err := f.next()
		if err == io.EOF { //nolint:errorlint // one that is wrapped is a form that breaks off
			break
		}
		if err != nil {
			if misnamed(err) {
				f.found.Add(f.at(f.seen), httpx.CodeInvalidValue, "must have a name without control characters")
				return f.found.Err()
			}
			return f.broken()
		}
		if n == maxFormParts {
			f.found.Add(httpx.BodyPath, httpx.CodeTooLong, "the form must have at most %d parts", maxFormParts)
			return f.found.Err()
		}
		if err := f.take(part); err != nil {
			return err
		}
	}
	if f.seen == 0 && !f.found.Has(partFile) && f.unread >= 0 {
		f.found.Add(partFile, httpx.CodeRequired, "is required: the form part with the document")
	}
	return f.found.Err()
}

// next goes to the next part, whose header may have so many bytes. The part before was read to its end.
func (f *documentForm) next() (*multipart.Part, error) {
	f.in.Allow(maxFormHeader)
	part, err := f.parts.NextRawPart()
	f.in.Allow(transfer.AnyBytes)
	return part, err
}

// broken is the error of a form that cannot be read on.
func (f *documentForm) broken() error {
	if f.in.Err != nil && !errors.Is(f.in.Err, transfer.ErrNotAllowed) {
		return f.in.Err
	}
	what := "is not a complete form with this boundary"
	if f.in.Err != nil {
		what = "the header of a part must have at most 8192 bytes"
	}
	f.found.Add(httpx.BodyPath, httpx.CodeInvalidValue, "%s", what)
	return f.found.Err()
}

func (f *documentForm) take(part *multipart.Part) error {
	name := part.FormName()
	switch encoding := strings.ToLower(part.Header.Get("Content-Transfer-Encoding")); encoding {
	case "", "binary", "8bit", "7bit":
	default: // which no browser has ever sent, and RFC 7578 takes back
		f.found.Add(partName(name), httpx.CodeInvalidValue, "must be sent without a Content-Transfer-Encoding")
		return f.skip(part)
	}
	switch name {
	case partFile:
		return f.takeFile(part)
	case partMetadata:
		return f.takeMetadata(part)
	case "":
		f.found.Add(httpx.BodyPath, httpx.CodeInvalidValue, "contains a part without a name")
	default:
		f.found.Add(partName(name), httpx.CodeUnknown, "is unknown: the parts of the form are file and metadata")
	}
	return f.skip(part)
}

// partName is the name of a part as problems tell it.
func partName(name string) string {
	if len(name) > 64 {
		name = name[:64] + "…"
	}
	return strings.ToValidUTF8(name, "\uFFFD")
}

// skip passes over a part of a form that is refused.
func (f *documentForm) skip(part io.Reader) error {
	n, err := io.CopyN(io.Discard, part, f.unread+1)
	f.unread -= n
	if err != nil && !errors.Is(err, io.EOF) {
		return f.broken()
	}
	return nil
}

// at is what problems call the nth file.
func (f *documentForm) at(n int) string {
	if f.limit == 1 {
		return partFile
	}
	return httpx.Element(partFile, n)
}

func (f *documentForm) tooMany() string {
	if f.limit == 1 {
		return "must be sent only once: a document has one content"
	}
	return fmt.Sprintf("may be repeated at most %d times", f.limit)
}

// misnamed reports whether the header of a part cannot be read for a control character in the name of its file.
func misnamed(err error) bool {
	broken, ok := errors.AsType[textproto.ProtocolError](err)
	if !ok {
		return false
	}
	_, quoted, _ := strings.Cut(string(broken), ": ")
	line, err := strconv.Unquote(quoted)
	header, value, _ := strings.Cut(line, ":")
	return err == nil && strings.EqualFold(header, "Content-Disposition") && strings.Contains(value, "filename") &&
		strings.ContainsFunc(value, unicode.IsControl)
}

func (f *documentForm) takeFile(part *multipart.Part) error {
	at := f.at(f.seen)
	if f.seen++; f.seen > f.limit {
		f.found.Add(partFile, httpx.CodeTooLong, "%s", f.tooMany())
		return f.skip(part)
	}
	doc := knowledgedb.NewDocument{Name: documentName(&f.found, at, fileName(part))}
	doc.MIMEType = documentType(&f.found, at, part.Header.Get("Content-Type"), doc.Name, octetStream)
	var first [1]byte
	if n, err := io.ReadFull(part, first[:]); n == 0 {
		if !errors.Is(err, io.EOF) {
			return f.broken()
		}
		f.found.Add(at, httpx.CodeTooShort, "must not be empty")
		return nil
	}
	if len(f.found.List) > 0 {
		return f.skip(part)
	}
	kept, err := f.keep(io.MultiReader(strings.NewReader(string(first[:])), part))
	switch {
	case err == nil:
		doc.Content = &kept
		f.files = append(f.files, doc)
		return nil
	case errors.Is(err, blobdb.ErrTooLarge):
		return documentTooLarge(at)
	case f.in.Err != nil || errors.Is(err, io.ErrUnexpectedEOF):
		return f.broken()
	default:
		return err
	}
}

// fileName is the name that a part gives its file. Browsers write the three characters that would end it in percent; a part
// that is no file has none.
func fileName(part *multipart.Part) string {
	_, parameters, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil {
		return ""
	}
	return strings.NewReplacer("%22", `"`, "%0D", "\r", "%0d", "\r", "%0A", "\n", "%0a", "\n").Replace(parameters["filename"])
}

func documentTooLarge(at string) error {
	e := apierr.New(apierr.PayloadTooLarge, "%s: a document must have at most %d bytes", at, MaxDocument)
	e.Fields = []apierr.Field{{Field: at, Code: httpx.CodeTooLong, Message: "must have at most 20971520 bytes"}}
	return e
}

func (f *documentForm) takeMetadata(part *multipart.Part) error {
	if f.told {
		f.found.Add(partMetadata, httpx.CodeDuplicate, "is given twice")
		return f.skip(part)
	}
	f.told = true
	text, err := io.ReadAll(io.LimitReader(part, maxFormMetadata+1))
	if err != nil {
		return f.broken()
	}
	if len(text) > maxFormMetadata {
		f.found.Add(partMetadata, httpx.CodeTooLong, "must have at most %d bytes", maxFormMetadata)
		return f.skip(part)
	}
	inner := &httpx.Problems{}
	httpx.DecodeStrict(text, &f.metadata, inner)
	for _, p := range inner.List {
		at := partMetadata + "." + p.Field
		if p.Field == httpx.BodyPath {
			at = partMetadata
		}
		f.found.Add(at, p.Code, "%s", p.Message)
	}
	if !f.found.Has(partMetadata) && utf8.Valid(text) {
		httpx.CheckMetadata(&f.found, partMetadata, f.metadata)
	}
	return nil
}
