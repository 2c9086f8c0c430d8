package knowledge

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/apierr"
)

// FuzzUpload reads random forms. Each is either rejected with its problems, or yields documents
// with valid names and metadata. A long rejected form must not be read to its end.
func FuzzUpload(f *testing.F) {
	head := "--b\r\nContent-Disposition: form-data; name=\"file\"; filename"
	f.Add("b", head+"=\"a%22b.txt\"\r\nContent-Type: text/plain; charset=x\r\n\r\nhello\r\n--b--\r\n")
	f.Add("b", head+"*=UTF-8''%e2%80%ae\r\n\r\n--b\r\n\r\n--b\r\nContent-Disposition: form-data; name=metadata\r\n\r\n{\"a\":\"b\"}\r\n--b--")
	f.Add(`"b c"`, "x\r\n--b c\r\nContent-Disposition: form-data; name=\"\xff\"\r\nContent-Transfer-Encoding: base64\r\n\r\nQQ==\n--b c--")
	f.Add("", "")
	f.Add("b; boundary*0=c", strings.Repeat("--b\r\n\r\n", 100))
	f.Fuzz(func(t *testing.T, boundary, body string) {
		form, err := formOfType(body, httpx.ContentForm+"; boundary="+boundary, maxFormFiles)
		if err == nil {
			err = form.read()
		}
		if err != nil {
			coded, ok := errors.AsType[*apierr.Error](err)
			if !ok || coded.Code != apierr.InvalidRequest || len(coded.Fields) == 0 {
				t.Fatalf("%v", err)
			}
			for _, p := range coded.Fields {
				if !utf8.ValidString(p.Field) || !utf8.ValidString(p.Message) || len(p.Field) > 1000 {
					t.Errorf("the problem %+v", p)
				}
			}
			return
		}
		if len(form.files) == 0 || len(form.files) > maxFormFiles || len(form.metadata) > httpx.MaxMetadata {
			t.Errorf("%d files, %d names", len(form.files), len(form.metadata))
		}
		for _, doc := range form.files {
			strange := func(r rune) bool {
				return unicode.In(r, unicode.Cc, unicode.Bidi_Control, unicode.Zl, unicode.Zp) || r == '/' || r == '\\'
			}
			if n := utf8.RuneCountInString(doc.Name); n < 1 || n > maxDocumentName || !utf8.ValidString(doc.Name) || strings.ContainsFunc(doc.Name, strange) {
				t.Errorf("the name %q", doc.Name)
			}
			if doc.Content == nil || doc.Content.Bytes == 0 || doc.MIMEType == "" || len(doc.MIMEType) > 1000 || strings.ContainsFunc(doc.MIMEType, unicode.IsControl) {
				t.Errorf("%+v", doc)
			}
		}
		for name, value := range form.metadata {
			if !httpx.MetadataName.MatchString(name) || !utf8.ValidString(value) || utf8.RuneCountInString(value) > httpx.MaxMetadataValue {
				t.Errorf("%q: %q", name, value)
			}
		}
	})
}
