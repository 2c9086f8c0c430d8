package knowledge

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/transfer"
	"parley/shared/apierr"
	"parley/shared/store/blobdb"
)

func TestNamesOfFiles(t *testing.T) {
	t.Parallel()
	for disposition, want := range map[string]string{
		`filename="plain.txt"`:                           "plain.txt",
		`filename="größe 日本.txt"`:                        "größe 日本.txt",
		`filename="a%22b%0D%0Ac%41.txt"`:                 `a"b  c%41.txt`,
		`filename="a\"b.txt"`:                            `a"b.txt`,
		`filename*=UTF-8''gr%C3%B6%C3%9Fe.csv`:           "größe.csv",
		`filename="x.txt"; filename*=UTF-8''%e2%82%ac`:   "€",
		`filename*=iso-8859-1''gr%F6`:                    "document",
		`filename="../../etc/passwd"`:                    "passwd",
		`filename="C:\temp\a.txt"`:                       "a.txt",
		"filename=\"photo\u202egnp.exe\"":                "photognp.exe",
		"filename=\"\u2066a\u2069\ufeff.b\u200b\"":       "a.b",
		"filename=\"\u0645\u06cc\u200c\u062e.txt\"":      "\u0645\u06cc\u200c\u062e.txt",
		"filename=\"\u200e \u2028.\"":                    "document",
		`filename=""`:                                    "document",
		`filename=".."`:                                  "document",
		`filename="dir/"`:                                "document",
		`filename="   "`:                                 "! file[0]:invalid_value",
		`nothing=""`:                                     "document",
		`filename="` + strings.Repeat("ä", 255) + `"`:    strings.Repeat("ä", 255),
		`filename="/` + strings.Repeat("a/", 500) + `b"`: "b",
		`filename="` + strings.Repeat("a", 256) + `"`:    "! file[0]:too_long",
		"filename=\"a\xff.txt\"":                         "! file[0]:invalid_value",
		`filename*=UTF-8''a%00b`:                         "! file[0]:invalid_value",
		`filename="a%00b"`:                               "a%00b",
		"filename=\"a\x00b\"":                            "! file[0]:invalid_value",
		"filename=\"a\x1bb\"":                            "! file[0]:invalid_value",
		"filename=\"a\"\r\nX-Part: a\x00":                "! body:invalid_value",
	} {
		form := formIn("--b\r\nContent-Disposition: form-data; name=\"file\"; "+disposition+"\r\n\r\nx\r\n--b--", "b", maxFormFiles)
		var got string
		if err := form.read(); err != nil {
			got = "! " + wrongIn(t, err)
		} else {
			got = form.files[0].Name
		}
		if got != want {
			t.Errorf("%q: %q, want %q", disposition, got, want)
		}
	}
}

// formIn returns a form with up to three files whose contents are not stored.
func formIn(body, boundary string, limit int) *documentForm {
	form, err := formOfType(body, httpx.ContentForm+"; boundary="+boundary, limit)
	if err != nil {
		panic(err) // the boundaries are valid
	}
	return form
}

func formOfType(body, contentType string, limit int) (*documentForm, error) {
	from := &transfer.Limiter{Policy: transfer.Documents}
	slot, err := from.Enter(transfer.Owner{Credential: "c"}, http.NewResponseController(httptest.NewRecorder()))
	if err != nil {
		panic(err) // the first transfer always gets a slot
	}
	in := &transfer.Upload{Body: strings.NewReader(body), From: slot, Allowed: transfer.AnyBytes}
	return newDocumentForm(in, contentType, limit, func(content io.Reader) (blobdb.Upload, error) {
		n, err := io.Copy(io.Discard, content)
		if n > MaxDocument {
			err = blobdb.ErrTooLarge
		}
		return blobdb.Upload{Bytes: n}, err
	})
}

func wrongIn(t *testing.T, err error) string {
	t.Helper()
	coded, ok := err.(*apierr.Error) //nolint:errorlint // must be an API error that is not wrapped
	if !ok {
		t.Fatalf("%v is not a coded error", err)
	}
	var out []string
	for _, f := range coded.Fields {
		out = append(out, f.Field+":"+f.Code)
	}
	if len(out) == 0 {
		return string(coded.Code)
	}
	return strings.Join(out, " ")
}

func TestTypesOfFiles(t *testing.T) {
	t.Parallel()
	for declared, want := range map[[2]string]string{
		{"application/pdf", "a"}:                     "application/pdf",
		{"Application/PDF", "a.txt"}:                 "application/pdf",
		{"text/plain; charset=ISO-8859-1; x=y", "a"}: "text/plain; charset=ISO-8859-1",
		{"text/plain; charset=utf-8", "a"}:           "text/plain",
		{"", "a.DOCX"}:                               documentTypes[".docx"],
		{"application/octet-stream", "notes.md"}:     "text/markdown",
		{"application/octet-stream", "a.unknown"}:    octetStream,

		{"", "a"}:                octetStream,
		{"nonsense", "a.pdf"}:    "! file:invalid_value",
		{"text/", "a.pdf"}:       "! file:invalid_value",
		{"text/html\u202e", "a"}: "! file:invalid_value",

		{"text/" + strings.Repeat("a", 300), "a"}:      "! file:invalid_value",
		{"text/plain; charset=\"a\u202eb\"", "a.html"}: "text/plain; charset*=utf-8''a%E2%80%AEb",
	} {
		p := &httpx.Problems{}
		got := documentType(p, "file", declared[0], declared[1], octetStream)
		if err := p.Err(); err != nil {
			got = "! " + wrongIn(t, err)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", declared, got, want)
		}
	}
}

func TestFormsThatAreRefused(t *testing.T) {
	t.Parallel()
	part := func(disposition, content string) string {
		return "--b\r\nContent-Disposition: form-data; " + disposition + "\r\n\r\n" + content + "\r\n"
	}
	file := part(`name="file"; filename="a.txt"`, "x")
	empty := part(`name="file"; filename="a.txt"`, "")
	metadataPart := func(metadata string) string { return part(`name="metadata"`, metadata) }
	const end = "--b--\r\n"
	var pairs []string
	for n := range 21 {
		pairs = append(pairs, fmt.Sprintf(`"k%d":""`, n))
	}
	for name, tc := range map[string]struct{ body, want string }{
		"nothing":               {"", "body:invalid_value"},
		"an empty form":         {end, "file:required"},
		"metadata alone":        {metadataPart(`{}`) + end, "file:required"},
		"another part":          {part(`name="note"`, "x") + file + end, "note:unknown_field"},
		"parts without names":   {"--b\r\n\r\nx\r\n" + file + end, "body:invalid_value"},
		"an attachment":         {"--b\r\nContent-Disposition: attachment; name=\"file\"\r\n\r\nx\r\n" + end, "body:invalid_value file:required"},
		"an empty file":         {file + empty + end, "file[1]:too_short"},
		"all that is wrong":     {part(`name="note"`, "x") + empty + metadataPart(`{"a b":1,"c":"`+strings.Repeat("x", 257)+`"}`) + end, "note:unknown_field file[0]:too_short metadata.a b:invalid_type metadata:invalid_value"},
		"21 files":              {strings.Repeat(file, 21) + end, "file:too_long"},
		"65 parts":              {strings.Repeat(part(`name="a"`, ""), 65) + end, "a:unknown_field body:too_long"},
		"metadata twice":        {metadataPart(`{}`) + file + metadataPart(`{}`) + end, "metadata:duplicate"},
		"metadata, no JSON":     {metadataPart(`x`) + file + end, "metadata:invalid_json"},
		"metadata, empty":       {metadataPart(``) + file + end, "metadata:invalid_json"},
		"metadata, a list":      {metadataPart(`[]`) + file + end, "metadata:invalid_type"},
		"metadata, null":        {metadataPart(`null`) + file + end, "metadata:invalid_type"},
		"a name twice":          {metadataPart(`{"a":"b","a":"c"}`) + file + end, "metadata.a:duplicate"},
		"a value with NUL":      {metadataPart(`{"a":"\u0000"}`) + file + end, "metadata.a:invalid_value"},
		"a name that is none":   {metadataPart(`{"a b":"c"}`) + file + end, "metadata:invalid_value"},
		"too many":              {metadataPart(`{`+strings.Join(pairs, ",")+`}`) + file + end, "metadata:too_long"},
		"a long value":          {metadataPart(`{"a":"`+strings.Repeat("ä", 257)+`"}`) + file + end, "metadata.a:too_long"},
		"long metadata":         {metadataPart(`{"a":"`+strings.Repeat(" ", 70<<10)+`"}`) + file + end, "metadata:too_long"},
		"not UTF-8":             {metadataPart("{\"a\":\"\xff\"}") + file + end, "metadata:invalid_json"},
		"quoted printable":      {"--b\r\nContent-Disposition: form-data; name=\"file\"\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=41\r\n" + end, "file:invalid_value"},
		"base64":                {"--b\r\nContent-Disposition: form-data; name=\"file\"\r\nContent-Transfer-Encoding: BASE64\r\n\r\nQQ==\r\n" + end, "file:invalid_value"},
		"a bad type":            {"--b\r\nContent-Disposition: form-data; name=\"file\"\r\nContent-Type: pdf\r\n\r\nx\r\n" + end, "file[0]:invalid_value"},
		"another boundary":      {strings.ReplaceAll(file+end, "--b", "--c"), "body:invalid_value"},
		"no end":                {file, "body:invalid_value"},
		"cut in a file":         {file[:len(file)-3], "body:invalid_value"},
		"cut in a header":       {file[:20], "body:invalid_value"},
		"cut in the boundary":   {file + "--", "body:invalid_value"},
		"cut in metadata":       {"--b\r\nContent-Disposition: form-data; name=\"metadata\"\r\n\r\n{}", "body:invalid_value"},
		"no colon in a header":  {"--b\r\nContent-Disposition form-data\r\n\r\nx\r\n" + end, "body:invalid_value"},
		"a long header":         {"--b\r\nX: " + strings.Repeat("a", 20<<10) + "\r\n\r\nx\r\n" + end, "body:invalid_value"},
		"many headers":          {"--b\r\n" + strings.Repeat("X: a\r\n", 4<<10) + "\r\nx\r\n" + end, "body:invalid_value"},
		"a long beginning":      {strings.Repeat("x\r\n", 10<<10) + file + end, "body:invalid_value"},
		"behind its own end":    {file + end + file, ""},
		"a short beginning":     {"hello\r\n" + file + end, ""},
		"spaces at a boundary":  {"--b  \r\n" + strings.TrimPrefix(file, "--b\r\n") + end, ""},
		"line feeds alone":      {strings.ReplaceAll(file+end, "\r", ""), ""},
		"metadata behind":       {file + metadataPart(`{"a":"b"}`) + end, ""},
		"sent as it is":         {"--b\r\nContent-Disposition: form-data; name=\"file\"\r\nContent-Transfer-Encoding: Binary\r\n\r\nx\r\n" + end, ""},
		"a boundary in a file":  {part(`name="file"`, "--b-\n--bb\r\nb--\r\n-- b") + end, ""},
		"20 files and metadata": {strings.Repeat(file, 20) + metadataPart(`{}`) + end, ""},
	} {
		got, form := "", formIn(tc.body, "b", maxFormFiles)
		if err := form.read(); err != nil {
			got = wrongIn(t, err)
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
		if tc.want == "" && len(form.files) == 0 {
			t.Errorf("%s: no file", name)
		}
	}
}
