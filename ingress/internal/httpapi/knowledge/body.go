package knowledge

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/transfer"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/knowledgedb"
)

// MaxDocumentBody is the maximum size, in bytes, of a JSON body with a document. It has room for
// the largest document in base64 and for the other fields.
const MaxDocumentBody = 28 << 20

// documentFields contains the fields of a document that callers can set. A request may set at most
// one of content, contentBase64 and url. documentFields is embedded in the bodies for new documents
// and for changes. The fields are checked before any content is stored.
type documentFields struct {
	Name httpx.Optional[string] `json:"name"`
	// Content as text, in UTF-8.
	Content httpx.Optional[httpx.LongText] `json:"content"`
	// Content as a file of any supported format.
	ContentBase64 httpx.Optional[httpx.LongText] `json:"contentBase64"`
	// Declared type of the content; a missing type is derived from the name.
	MIMEType httpx.Optional[string] `json:"mimeType"`
	// Replaces all metadata of the document; null removes it.
	Metadata httpx.Removable[map[string]string] `json:"metadata"`
}

// newDocumentBody is the JSON body of POST /api/knowledge.
type newDocumentBody struct {
	documentFields
	// Address from which a worker fetches the content.
	URL httpx.Optional[string] `json:"url"`
}

// documentChangeBody is the JSON body of a PUT. It accepts all fields of a document that was read
// with GET. The fields of type Volatile may have any values, because workers may have changed them
// since the document was read. The document is processed again only if the content, the URL or the
// name changes.
type documentChangeBody struct {
	documentFields
	// Null changes a document with a URL into one with uploaded content.
	URL       httpx.Optional[*string]              `json:"url"`
	ID        httpx.ReadOnly                       `json:"id"`
	Bytes     httpx.Volatile[int64]                `json:"bytes"`
	SHA256    httpx.Volatile[string]               `json:"sha256"`
	Status    httpx.Volatile[string]               `json:"status"`
	Error     httpx.Volatile[domain.DocumentError] `json:"error"`
	Pages     httpx.Volatile[int]                  `json:"pages"`
	PagesDone httpx.Volatile[int]                  `json:"pagesDone"`
	Chunks    httpx.Volatile[int]                  `json:"chunks"`
	Language  httpx.Volatile[string]               `json:"language"`
	Notes     httpx.Volatile[[]string]             `json:"notes"`
	CreatedAt httpx.ReadOnly                       `json:"createdAt"`
	UpdatedAt httpx.Volatile[string]               `json:"updatedAt"`
}

// Check checks the fields. Content or a URL is required. A name is required unless there is a URL.
func (b *newDocumentBody) Check(p *httpx.Problems) {
	b.documentFields.Check(p, b.URL)
	switch {
	case !b.Content.Set && !b.ContentBase64.Set && !b.URL.Set:
		p.Add("content", httpx.CodeRequired, "is required, unless contentBase64 or url is given")
	case !b.Name.Set && !b.URL.Set: // the name is derived from the URL
		p.Add("name", httpx.CodeRequired, "is required")
	}
}

// Check checks the fields. All of them may be missing. A change is checked against the stored
// document later; see checkAgainst.
func (b *documentChangeBody) Check(p *httpx.Problems) { b.documentFields.Check(p, b.address()) }

// address returns the body's url. Null counts as not set.
func (b *documentChangeBody) address() (address httpx.Optional[string]) {
	if address.Set = b.URL.Value != nil; address.Set {
		address.Value = *b.URL.Value
	}
	return address
}

// Check checks the fields and normalizes the name and the type. address is the url in the body. The
// text fields, base64 and metadata are checked completely, so that one response reports all
// problems. Problems are added to p under the names of the fields.
func (f *documentFields) Check(p *httpx.Problems, address httpx.Optional[string]) {
	if f.Name.Set {
		before := len(p.List)

		// The limit for the whole text is its own length, because documentName checks the length of
		// the last element of a path.
		p.Text("name", f.Name.Value, 1, len(f.Name.Value))
		if len(p.List) == before {
			p.Visible("name", f.Name.Value)
			f.Name.Value = documentName(p, "name", f.Name.Value)
		}
	}

	if f.MIMEType.Set {
		f.MIMEType.Value = documentType(p, "mimeType", f.MIMEType.Value, f.Name.Value, octetStream)
	}

	httpx.CheckMetadata(p, "metadata", f.Metadata.Value)
	if address.Set {
		httpx.CheckURL(p, "url", address.Value)
	}

	// Report each field with content as a conflict with the previous field that has content.
	first := ""
	for _, field := range []struct {
		name string
		set  bool
	}{{"content", f.Content.Set}, {"contentBase64", f.ContentBase64.Set}, {"url", address.Set}} {
		if field.set && first != "" {
			p.Add(field.name, httpx.CodeConflict, "cannot be combined with %s, because a document is one file or one text", first)
		}

		if field.set {
			first = field.name
		}
	}

	if f.Content.Set && len(f.Content.Value) == 0 {
		p.Add("content", httpx.CodeTooShort, "must not be empty")
	}

	f.checkBase64(p)
}

// checkBase64 decodes the whole content once before it is stored, so that nothing is stored if the
// base64 is invalid. The decoded content is discarded. The content is decoded again while it is
// stored; see the method content. A problem is added for invalid base64 and for empty content.
func (f *documentFields) checkBase64(p *httpx.Problems) {
	if !f.ContentBase64.Set {
		return
	}
	n, err := io.Copy(io.Discard, decoded(f.ContentBase64.Value))
	switch {
	case err != nil:
		p.Add("contentBase64", httpx.CodeInvalidValue, "must be padded base64 in the standard alphabet (+ and /)")
	case n == 0:
		p.Add("contentBase64", httpx.CodeTooShort, "must not be empty")
	}
}

// decoded returns a reader that decodes base64 piece by piece, so that the decoded document is
// never in memory as a whole. Decoding is strict: bits after the last byte must be 0. Line breaks
// are permitted.
func decoded(text []byte) io.Reader {
	return base64.NewDecoder(base64.StdEncoding.Strict(), bytes.NewReader(text))
}

// content returns a reader of the body's content and the name of its field, or nil and "" if the
// body has no content. It returns a new reader each time. The reader refers to the body's memory.
func (f *documentFields) content() (from io.Reader, name string) {
	switch {
	case f.Content.Set:
		return bytes.NewReader(f.Content.Value), "content"
	case f.ContentBase64.Set:
		return decoded(f.ContentBase64.Value), "contentBase64"
	}
	return nil, ""
}

// newDocument returns the document that the fields describe, without its content. address is the
// document's URL, or "" for a document with content. The fields must have been checked.
func (f *documentFields) newDocument(address string) knowledgedb.NewDocument {
	doc := knowledgedb.NewDocument{Name: f.Name.Value, MIMEType: f.MIMEType.Value, Metadata: f.Metadata.Value, URL: address}
	if doc.Name == "" {
		doc.Name = nameOfAddress(address)
	}

	// Without a declared type, the extension of the name determines the type. If the extension is
	// unknown, content that was sent in the field content is plain text.
	if doc.MIMEType == "" || doc.MIMEType == octetStream {
		other := octetStream
		if f.Content.Set {
			other = "text/plain"
		}
		doc.MIMEType = documentType(&httpx.Problems{}, "mimeType", "", doc.Name, other)
	}

	return doc
}

// nameOfAddress returns the name of a document that is fetched from a URL: the last element of the
// URL's path or, if the path is empty, the URL's host. This name is used only if the request
// contains no name.
func nameOfAddress(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return defaultName // unreachable: Check has parsed the address
	}
	name := documentName(&httpx.Problems{}, "url", path.Base(u.Path))
	if name == defaultName || name == "" {
		return documentName(&httpx.Problems{}, "url", u.Host)
	}
	return name
}

// bindDocument reads a JSON body that may contain a document. The caller must call leave when the
// body is no longer needed, because the body may occupy a slot. If err is not nil, leave need not
// be called. All problems of the body are returned as one error. Other errors come from
// transfer.Receive and from reading the upload.
func bindDocument[T any](h *Handler, c *gin.Context) (body T, leave func(), err error) {
	// A small body with a known length is read without a slot, like other JSON bodies.
	if length := c.Request.ContentLength; length >= 0 && length <= httpx.MaxBody {
		body, err = readDocument[T](c.Request.Body, length)
		return body, func() {}, err
	}

	// A larger body takes a slot. There is a separate limiter for each range of sizes. When a body
	// exceeds the range of one limiter, it moves to the limiter for the next range.
	in, err := transfer.Receive(c, transfer.OwnerFor(c), h.SessionCheck(c), transfer.Step{All: &h.Small, Max: transfer.SmallBody},
		transfer.Step{All: &h.MediumTexts, Max: transfer.MediumBody}, transfer.Step{All: &h.Texts, Max: MaxDocumentBody})
	if err != nil {
		return body, nil, err
	}
	if body, err = readDocument[T](in, c.Request.ContentLength); err != nil {
		in.Leave()
		return body, nil, err
	}

	// The body is in memory now. From now on, a slow client cannot delay the request.
	in.Complete()
	return body, in.Leave, nil
}

// readDocument reads and decodes a JSON body. length is the declared length of the body, or -1. The
// buffer is not pooled, because LongText fields refer to its bytes. Therefore httpx.Bind, which
// returns its buffer to a pool, cannot be used. If body implements httpx.Checked, its fields are
// checked too.
func readDocument[T any](from io.Reader, length int64) (body T, err error) {
	if length == 0 {
		return body, apierr.Invalid(httpx.BodyPath, httpx.CodeRequired, "a JSON body is required")
	}

	var buf bytes.Buffer

	// ReadFrom grows the buffer unless bytes.MinRead bytes are free, so reserve them to avoid a
	// copy.
	if length > 0 {
		buf.Grow(int(length) + bytes.MinRead)
	}

	// Errors with a code come from the limiter, such as payload_too_large. Other errors come from
	// the connection.
	if _, err = buf.ReadFrom(from); err != nil {
		if _, coded := errors.AsType[*apierr.Error](err); coded {
			return body, err
		}
		return body, apierr.Wrap(apierr.InvalidRequest, fmt.Errorf("reading body: %w", err), "the body was not received completely")
	}

	found := &httpx.Problems{}
	if !httpx.DecodeStrict(buf.Bytes(), &body, found) || found.Has(httpx.BodyPath) {
		return body, found.Err()
	}
	if b, ok := any(&body).(httpx.Checked); ok {
		b.Check(found)
	}
	return body, found.Err()
}
