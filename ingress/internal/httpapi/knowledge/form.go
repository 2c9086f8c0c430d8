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
	// MaxDocument is the maximum size of a document in bytes.
	MaxDocument = 20 << 20
	// Maximum number of files in a form.
	maxFormFiles = 20
	// Maximum number of all parts in a form.
	maxFormParts    = 64
	maxFormHeader   = 8 << 10  // maximum bytes of a part's header; the reader may buffer slightly more
	maxFormMetadata = 64 << 10 // maximum bytes of the part metadata
	// MaxForm is the maximum size of a form with documents in bytes. It includes 1 MiB for headers,
	// boundaries and metadata.
	MaxForm = maxFormFiles*MaxDocument + 1<<20

	// maxFormRest is the maximum number of bytes of parts that are skipped after the first problem,
	// to find further problems.
	maxFormRest = 1 << 20
	maxBoundary = 70 // maximum length according to RFC 2046

	partFile     = "file"
	partMetadata = "metadata"
)

// documentForm reads a multipart form with documents part by part. It is used by one goroutine for
// one request, and read is called once. Contents are stored while the form arrives, so a form that
// is rejected later leaves stored contents behind; see dropUploads. After the first problem, no
// further content is stored.
type documentForm struct {
	in    *transfer.Upload
	parts *multipart.Reader
	limit int // maximum number of files
	// Stores the content of a file.
	upload func(content io.Reader) (blobdb.Upload, error)
	// Problems so far, which read returns as one error.
	found  httpx.Problems
	unread int64 // number of bytes that may still be skipped; see maxFormRest

	files       []knowledgedb.NewDocument // stored contents, in the form's order
	seen        int                       // number of files seen, including rejected ones
	metadata    map[string]string
	hasMetadata bool // the form has a metadata part
}

// newDocumentForm returns a documentForm that reads the form from in. It returns an API error if
// contentType contains no valid boundary. limit is the maximum number of files. The function upload
// stores the content of one file, which it reads to the end.
func newDocumentForm(
	in *transfer.Upload, contentType string, limit int, upload func(io.Reader) (blobdb.Upload, error),
) (*documentForm, error) {
	_, parameters, err := mime.ParseMediaType(contentType)

	boundary := parameters["boundary"]
	printable := strings.IndexFunc(boundary, func(r rune) bool { return r < ' ' || r > '~' }) < 0
	if err != nil || boundary == "" || len(boundary) > maxBoundary || !printable || strings.HasSuffix(boundary, " ") {
		return nil, apierr.Invalid(httpx.BodyPath, httpx.CodeInvalidValue,
			"must have a boundary of 1 to %d characters", maxBoundary)
	}
	return &documentForm{in: in, parts: multipart.NewReader(in, boundary), limit: limit, upload: upload, unread: maxFormRest}, nil
}

// read reads all parts of the form. It returns one error for all problems. After a nil error,
// f.files has 1 to limit files whose contents are stored. The error is payload_too_large for a file
// of more than MaxDocument bytes. If the connection fails or is too slow, the error is that of the
// upload. read stops at the first problem after which it cannot find the next part.
func (f *documentForm) read() error {
	// A negative f.unread means that too much was skipped, so the rest of the form is not read.
	for n := 0; f.unread >= 0; n++ {
		part, err := f.next()
		if err == io.EOF { //nolint:errorlint // a wrapped io.EOF means that the form is incomplete
			break
		}
		if err != nil {
			if hasInvalidFileName(err) {
				f.found.Add(f.at(f.seen), httpx.CodeInvalidValue, "must have a name without control characters")
				return f.found.Err()
			}
			return f.readError()

			// Parts of any kind count toward maxFormParts, which bounds the work for a form of many
			// empty parts.
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

// next returns the next part, or io.EOF after the last part. The caller must have read the previous
// part completely. The header of the part may have up to maxFormHeader bytes. NextRawPart is used
// because NextPart would decode quoted-printable content.
func (f *documentForm) next() (*multipart.Part, error) {
	f.in.Allow(maxFormHeader)
	part, err := f.parts.NextRawPart()
	f.in.Allow(transfer.AnyBytes)
	return part, err
}

// readError returns the error for a form that cannot be read to its end. It is the error of the
// upload if the client was too slow or was disconnected. Otherwise the form is malformed, and the
// error also has the problems found so far.
func (f *documentForm) readError() error {
	// ErrNotAllowed means that the header exceeded the bytes that next allows.
	if f.in.Err != nil && !errors.Is(f.in.Err, transfer.ErrNotAllowed) {
		return f.in.Err
	}
	what := "is not a complete multipart form with the declared boundary"
	if f.in.Err != nil {
		what = "the header of a part must have at most 8192 bytes"
	}
	f.found.Add(httpx.BodyPath, httpx.CodeInvalidValue, "%s", what)
	return f.found.Err()
}

// take processes one part of the form. If it returns an error, no further parts can be read. It
// adds other problems to f.found.
func (f *documentForm) take(part *multipart.Part) error {
	name := part.FormName()

	switch encoding := strings.ToLower(part.Header.Get("Content-Transfer-Encoding")); encoding {
	case "", "binary", "8bit", "7bit":
	default: // no browser sends this header; RFC 7578 deprecates it
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

// partName returns the name of a part, shortened and in valid UTF-8, for the path of a problem.
func partName(name string) string {
	if len(name) > 64 {
		name = name[:64] + "…"
	}
	return strings.ToValidUTF8(name, "\uFFFD")
}

// skip discards a part of a rejected form. If the part has more than f.unread bytes, skip reads one
// byte more than f.unread, f.unread becomes negative, and the method read stops.
func (f *documentForm) skip(part io.Reader) error {
	n, err := io.CopyN(io.Discard, part, f.unread+1)
	f.unread -= n
	if err != nil && !errors.Is(err, io.EOF) {
		return f.readError()
	}
	return nil
}

// at returns the path of the nth file of the form, for problems.
func (f *documentForm) at(n int) string {
	if f.limit == 1 {
		return partFile
	}
	return httpx.Element(partFile, n)
}

// tooMany returns the message of the problem that a form has too many files. The message depends on
// the request: a change accepts one file, an addition several.
func (f *documentForm) tooMany() string {
	if f.limit == 1 {
		return "must be sent only once, because a document is one file or one text"
	}
	return fmt.Sprintf("may be repeated at most %d times", f.limit)
}

// hasInvalidFileName reports whether err means that the header of a part is malformed because the
// file name contains a control character. The package mime/multipart has no error type for this
// case, so the message of the error is parsed. The result decides only the text of a problem.
func hasInvalidFileName(err error) bool {
	malformed, ok := errors.AsType[textproto.ProtocolError](err)
	if !ok {
		return false
	}
	_, quoted, _ := strings.Cut(string(malformed), ": ")
	line, err := strconv.Unquote(quoted)
	header, value, _ := strings.Cut(line, ":")
	return err == nil && strings.EqualFold(header, "Content-Disposition") && strings.Contains(value, "filename") &&
		strings.ContainsFunc(value, unicode.IsControl)
}

// takeFile stores the content of a file. It skips the content if the form already has a problem. It
// returns an error if the form is malformed, the connection fails or the file is too large. A
// database error of the upload is returned unchanged.
func (f *documentForm) takeFile(part *multipart.Part) error {
	at := f.at(f.seen)
	if f.seen++; f.seen > f.limit {
		f.found.Add(partFile, httpx.CodeTooLong, "%s", f.tooMany())
		return f.skip(part)
	}

	doc := knowledgedb.NewDocument{Name: documentName(&f.found, at, fileName(part))}
	doc.MIMEType = documentType(&f.found, at, part.Header.Get("Content-Type"), doc.Name, octetStream)

	// Reject an empty file before an upload begins. MultiReader puts back the byte that is read for
	// this check.
	var first [1]byte
	if n, err := io.ReadFull(part, first[:]); n == 0 {
		if !errors.Is(err, io.EOF) {
			return f.readError()
		}
		f.found.Add(at, httpx.CodeTooShort, "must not be empty")
		return nil
	}

	// The form will be rejected, so storing more content would be useless.
	if len(f.found.List) > 0 {
		return f.skip(part)
	}

	kept, err := f.upload(io.MultiReader(strings.NewReader(string(first[:])), part))
	switch {
	case err == nil:
		doc.Content = &kept
		f.files = append(f.files, doc)
		return nil
	case errors.Is(err, blobdb.ErrTooLarge):
		return documentTooLarge(at)
	case f.in.Err != nil || errors.Is(err, io.ErrUnexpectedEOF):
		return f.readError()
	default:
		return err
	}
}

// fileName returns the file name of a part, or "" if the part is not a file. It decodes quotation
// marks and line breaks, which browsers percent-encode because they would end the name. The result
// may contain a path and any characters; see documentName.
func fileName(part *multipart.Part) string {
	_, parameters, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil {
		return ""
	}
	return strings.NewReplacer("%22", `"`, "%0D", "\r", "%0d", "\r", "%0A", "\n", "%0a", "\n").Replace(parameters["filename"])
}

// documentTooLarge returns the error for content of more than MaxDocument bytes. at is the path of
// the field or part that contains it. The code is payload_too_large.
func documentTooLarge(at string) error {
	e := apierr.New(apierr.PayloadTooLarge, "%s: a document must have at most %d bytes", at, MaxDocument)
	e.Fields = []apierr.Field{{Field: at, Code: httpx.CodeTooLong, Message: "must have at most 20971520 bytes"}}
	return e
}

// takeMetadata decodes the metadata for the form's documents. The metadata applies to all files of
// the form, whatever the order of the parts. An oversized or invalid part is a problem of the form.
func (f *documentForm) takeMetadata(part *multipart.Part) error {
	if f.hasMetadata {
		f.found.Add(partMetadata, httpx.CodeDuplicate, "is given twice")
		return f.skip(part)
	}

	f.hasMetadata = true

	// Read one byte more than the maximum, to find out whether the part is too long.
	text, err := io.ReadAll(io.LimitReader(part, maxFormMetadata+1))
	if err != nil {
		return f.readError()
	}
	if len(text) > maxFormMetadata {
		f.found.Add(partMetadata, httpx.CodeTooLong, "must have at most %d bytes", maxFormMetadata)
		return f.skip(part)
	}

	// The paths of problems within the metadata begin with the name of the part.
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
