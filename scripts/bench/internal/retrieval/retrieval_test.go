package retrieval

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const page = `'\" t
.\" A comment.
.TH LAMP 1 "2026" "Lights"
.de URL
\\$2
..
.SH NAME
lamp \- turns lamps on and off
.SH "EXIT STATUS"
.B lamp
returns \fB0\fR when the lamp is \(lqon\(rq, and
.BR 1 ", if"
it is not.
.PP
A second paragraph\&.
.TP
.B \-\-bright
Much light.
.TS
a	table
.TE
.nf
lamp \e
  \-\-dim
.fi
.SH
NOTES
The end.
`

func TestReadPage(t *testing.T) {
	t.Parallel()
	title, sections := readPage(page)
	want := []Section{
		{"NAME", []string{"lamp - turns lamps on and off"}},
		{"EXIT STATUS", []string{"lamp returns 0 when the lamp is “on”, and 1, if it is not.", "A second paragraph.", "--bright Much light.", `lamp \ --dim`}},
		{"NOTES", []string{"The end."}},
	}
	if title != "lamp(1)" || !slices.EqualFunc(sections, want, func(a, b Section) bool { return a.Heading == b.Heading && slices.Equal(a.Paragraphs, b.Paragraphs) }) {
		t.Errorf("%s\ngot  %q\nwant %q", title, sections, want)
	}
}

func TestUnescape(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		`a\-b`: "a-b", `\fIx\fP`: "x", `\f(CWx\fR`: "x", `\f[B]x\f[]`: "x", `\(aqx\(aq`: "'x'", `\[em]`: "—", `a\ b\~c`: "a b c",
		`\s-1X\s0`: "X", `x\" gone`: "x", `\*(lqx\*(rq`: "“x”", `\*x`: "", `end\`: "end", `\e`: `\`, `\(`: "", `\[`: "", `\f`: "", `\*`: "",
	} {
		if got := unescape(source); got != want {
			t.Errorf("%s: got %q, want %q", source, got, want)
		}
	}
}

func TestHTML(t *testing.T) {
	t.Parallel()
	got := string(Document{Name: "a(1)", Sections: []Section{{"B & C", []string{"x < y", "z"}}}}.HTML())
	for _, want := range []string{"<h1>a(1)</h1>", "<h2>B &amp; C</h2>\n<p>x &lt; y</p>\n<p>z</p>"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}

func packed(t *testing.T, text string) *fstest.MapFile {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &fstest.MapFile{Data: b.Bytes()}
}

// pages are manual pages of sections with words of their own and words that they share.
func pages(t *testing.T, n int) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{"man1/readme.txt": {Data: []byte("not a page")}}
	for i := range n {
		var b strings.Builder
		fmt.Fprintf(&b, ".TH PAGE%c%c 1\n.SH NAME\nshort\n", 'a'+i/26, 'a'+i%26)
		for s := range 3 {
			fmt.Fprintf(&b, ".SH SECTION %d\nonly%c%c%c\n", s, 'a'+i/26, 'a'+i%26, 'a'+s)
			for k := range 6 { // each of these is in four sections
				n := (i*3 + s + k*17) % 30
				fmt.Fprintf(&b, "rare%c%c%c\n", 'a'+k, 'a'+n/26, 'a'+n%26)
			}
			for w := range 60 {
				n := (i*7 + s*31 + w*w*3) % 90
				fmt.Fprintf(&b, "word%c%c\nsome\n", 'a'+n/26, 'a'+n%26)
			}
		}
		files[fmt.Sprintf("man1/page%d.1.gz", i)] = packed(t, b.String())
	}
	return files
}

func TestGather(t *testing.T) {
	t.Parallel()
	files := pages(t, 40)
	one, err := Gather(files, 60)
	if err != nil {
		t.Fatal(err)
	}
	two, err := Gather(files, 60)
	if err != nil || len(one) != 20 || len(two) != 20 || one[7].Name != two[7].Name {
		t.Errorf("%d documents, then %d: %v", len(one), len(two), err)
	}
	if _, err := Gather(files, 1000); !errors.Is(err, ErrFewPages) {
		t.Errorf("from too few pages: %v", err)
	}
	if _, err := Gather(fstest.MapFS{}, 1); !errors.Is(err, ErrFewPages) {
		t.Errorf("from none: %v", err)
	}
	files["man1/broken.1.gz"] = &fstest.MapFile{Data: []byte("not packed")}
	if _, err := Gather(files, 1000); err == nil || errors.Is(err, ErrFewPages) {
		t.Errorf("from a broken one: %v", err)
	}
}

func TestGatherTakesFewOfAFamily(t *testing.T) {
	t.Parallel()
	files := pages(t, 2)
	for i := range 60 {
		text := strings.Repeat(fmt.Sprintf("about the command %c%c ", 'a'+i/26, 'a'+i%26), 40)
		files[fmt.Sprintf("man1/git-%d.1.gz", i)] = packed(t, fmt.Sprintf(".TH GIT-%d 1\n.SH DESCRIPTION\n%s\n", i, text))
	}
	if _, err := Gather(files, 30); !errors.Is(err, ErrFewPages) {
		t.Errorf("%d pages of one program were enough: %v", 60, err)
	}
	if got, err := Gather(files, kindred+6); err != nil || len(got) != kindred+2 {
		t.Errorf("%d documents: %v", len(got), err)
	}
}

func TestAsk(t *testing.T) {
	t.Parallel()
	documents, err := Gather(pages(t, 40), 120)
	if err != nil {
		t.Fatal(err)
	}
	one := Ask(documents, 60, 1)
	if two := Ask(documents, 60, 1); !slices.Equal(one, two) {
		t.Error("the same seed asks other questions")
	}
	if three := Ask(documents, 60, 2); slices.Equal(one, three) {
		t.Error("another seed asks the same questions")
	}
	if len(one) != 60 {
		t.Fatalf("%d questions", len(one))
	}
	of, asked := map[string]int{}, map[string]bool{}
	for _, q := range one {
		of[q.Kind]++
		place := fmt.Sprint(q.Document, q.Section)
		if asked[place] {
			t.Errorf("%s is asked about twice", place)
		}
		asked[place] = true
		at := slices.IndexFunc(documents, func(d Document) bool { return d.Name == q.Document })
		section := documents[at].Sections[q.Section]
		if quoted(section, strings.Fields(q.Text)) {
			t.Errorf("%q stands in the section", q.Text)
		}
		if q.Kind == Plain && !slices.ContainsFunc(strings.Fields(q.Text), func(w string) bool { return strings.Contains(section.Text(), w) }) {
			t.Errorf("%q has no word of the section", q.Text)
		}
	}
	for _, kind := range Kinds() {
		if of[kind] != 15 {
			t.Errorf("%d questions are %s", of[kind], kind)
		}
	}
}

func TestWordsAreChanged(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"table", "tables", "running", "stopped", "queries", "query", "class"} {
		rng := newRandom(3)
		if got := inflect(rng, word); got == word || got == "" || got[:3] != word[:3] {
			t.Errorf("%s became %q", word, got)
		}
		for seed := range uint64(20) {
			if got := slip(newRandom(seed), "configure"); got[0] != 'c' || len(got) < 8 || len(got) > 10 {
				t.Errorf("configure became %q", got)
			}
		}
	}
}

func TestQuality(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		ranks        scored
		recall, ndcg float64
	}{
		"nothing":   {nil, 0, 0},
		"first":     {scored{1, 1}, 1, 1},
		"not found": {scored{0, 0}, 0, 0},
		"places":    {scored{1, 3, 5, 6, 10, 11, 0, 2}, 4. / 8, (1 + .5 + 1/math.Log2(6) + 1/math.Log2(7) + 1/math.Log2(11) + 1/math.Log2(3)) / 8},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tt.ranks.quality()
			if got.Questions != len(tt.ranks) || math.Abs(got.Recall-tt.recall) > 1e-12 || math.Abs(got.NDCG-tt.ndcg) > 1e-12 {
				t.Errorf("got %+v, want %g and %g", got, tt.recall, tt.ndcg)
			}
		})
	}
}

func TestRank(t *testing.T) {
	t.Parallel()
	sentence := "The lamp is turned on by the switch at the door, or by the one beside the bed when that is nearer."
	section := Section{"USE", []string{"Short.", sentence}}
	found := []Passage{
		{"lamp(1)", "Something else that this page says of lamps and switches and doors, at some length."},
		{"door(1)", sentence},
		{"lamp(1)", "USE\n\nShort.\n\n" + strings.ReplaceAll(sentence, " ", "\n ")},
	}
	if got := rank(found, "lamp(1)", section); got != 3 {
		t.Errorf("it is found at %d, want 3", got)
	}
	if got := rank(found[:2], "lamp(1)", section); got != 0 {
		t.Errorf("it is found at %d, want 0", got)
	}
}

func TestEmbeddings(t *testing.T) {
	t.Parallel()
	if !slices.Equal(Embed("the same text, the same words"), Embed("the same text, the same words")) {
		t.Error("one text has two vectors")
	}
	dot := func(a, b string) (sum float64) {
		x, y := Embed(a), Embed(b)
		for i := range x {
			sum += float64(x[i]) * float64(y[i])
		}
		return sum
	}
	for _, text := range []string{"", "?", "configure the server"} {
		if length := dot(text, text); math.Abs(length-1) > 1e-6 {
			t.Errorf("%q: the vector's length is %g", text, length)
		}
	}
	if near, far := dot("configure the server", "configuring servers"), dot("configure the server", "a bucket of apples"); near < far+0.2 {
		t.Errorf("%g to what is written alike, %g to what is not", near, far)
	}
}

func TestEmbeddingsService(t *testing.T) {
	t.Parallel()
	service, err := serveEmbeddings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		body   string
		status int
		n      int
	}{
		"texts":   {`{"model":"hashed","input":["a","b"]}`, http.StatusOK, 2},
		"a text":  {`{"model":"hashed","input":"a"}`, http.StatusOK, 1},
		"neither": {`{"model":"hashed","input":7}`, http.StatusBadRequest, 0},
		"no JSON": {`x`, http.StatusBadRequest, 0},
	}
	for name, tt := range tests {
		recorder := httptest.NewRecorder()
		ServeEmbeddings(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/embeddings", strings.NewReader(tt.body)))
		var got struct {
			Data []struct {
				Index     int       `json:"index"`
				Embedding []float32 `json:"embedding"`
			} `json:"data"`
		}
		if recorder.Code == http.StatusOK {
			if err := json.Unmarshal(recorder.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
		}
		if recorder.Code != tt.status || len(got.Data) != tt.n || tt.n > 0 && len(got.Data[tt.n-1].Embedding) != Dimensions {
			t.Errorf("%s: %d with %d vectors", name, recorder.Code, len(got.Data))
		}
	}
	if err := service.close(); err != nil {
		t.Error(err)
	}
}
