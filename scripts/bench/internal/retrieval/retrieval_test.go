package retrieval

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestHTML(t *testing.T) {
	t.Parallel()
	document := Document{Name: "a(1)", Sections: []Section{{"B & C", []string{"x < y", "z"}}}}
	got := string(document.HTML())
	for _, want := range []string{"<h1>a(1)</h1>", "<h2>B &amp; C</h2>\n<p>x &lt; y</p>\n<p>z</p>"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}

// sources creates a directory of packages whose functions have unique words and shared words.
func sources(t *testing.T, n int) string {
	t.Helper()
	root := t.TempDir()
	for i := range n {
		var b strings.Builder
		fmt.Fprintf(&b, "// Package p%d is short.\npackage p%d\n", i, i)
		for s := range 3 {
			fmt.Fprintf(&b, "\n// F%d is only%c%c%c:\n", s, 'a'+i/26, 'a'+i%26, 'a'+s)
			for k := range 6 { // each of these is in four sections
				n := (i*3 + s + k*17) % 30
				fmt.Fprintf(&b, "// rare%c%c%c\n", 'a'+k, 'a'+n/26, 'a'+n%26)
			}
			for w := range 60 {
				n := (i*7 + s*31 + w*w*3) % 90
				fmt.Fprintf(&b, "// word%c%c some\n", 'a'+n/26, 'a'+n%26)
			}
			fmt.Fprintf(&b, "func F%d() {}\n", s)
		}
		dir := filepath.Join(root, fmt.Sprintf("p%02d", i))
		if err := os.Mkdir(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestGather(t *testing.T) {
	t.Parallel()
	root := sources(t, 40)
	documents, err := Gather(root, 60)
	if err != nil || len(documents) != 20 {
		t.Fatalf("%d documents: %v", len(documents), err)
	}
	if d := documents[7]; d.Name != "p07" || len(d.Sections) != 4 || d.Sections[0].Heading != "Package p7" || d.Sections[3].Heading != "F2" {
		t.Errorf("a document is %+v", d)
	}
	if _, err := Gather(root, 1000); err == nil {
		t.Error("there are too few sections")
	}
}

func TestAsk(t *testing.T) {
	t.Parallel()
	documents, err := Gather(sources(t, 40), 120)
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

	asked := map[string]bool{}
	for _, q := range one {
		place := fmt.Sprint(q.Document, q.Section)
		if asked[place] {
			t.Errorf("%s is decided twice", place)
		}
		asked[place] = true
		at := slices.IndexFunc(documents, func(d Document) bool { return d.Name == q.Document })
		text := documents[at].Sections[q.Section].Text()
		if !slices.ContainsFunc(strings.Fields(q.Text), func(w string) bool { return strings.Contains(text, w) }) {
			t.Errorf("%q has no word of the section", q.Text)
		}
	}
}

func TestSlip(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		if got := mistype(newRandom(seed), "configure"); got[0] != 'c' || len(got) < 8 || len(got) > 10 {
			t.Errorf("configure became %q", got)
		}
	}
}

func TestRecall(t *testing.T) {
	t.Parallel()
	for want, ranks := range map[float64]Ranks{0: {0, 0, 6}, 1: {1, 5}, 0.5: {1, 3, 5, 2, 10, 11, 0, 6}} {
		if got := ranks.Recall(); got != want {
			t.Errorf("%v: %g, want %g", ranks, got, want)
		}
	}
	if (Ranks{}).Recall() != 0 {
		t.Error("no question was answered")
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
	if got := Rank(found, "lamp(1)", section); got != 3 {
		t.Errorf("it is found at %d, want 3", got)
	}
	if got := Rank(found[:2], "lamp(1)", section); got != 0 {
		t.Errorf("it is found at %d, want 0", got)
	}
}
