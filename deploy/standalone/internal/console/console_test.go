package console

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"parley/shared/truncate"
)

func TestSafeText(t *testing.T) {
	t.Parallel()
	if got := OneLine(" a\tb\n\x1b[31mc\u009b\x7f  d "); got != "a b [31mc d" {
		t.Errorf("one line: %q", got)
	}

	for text, want := range map[string]string{
		"a\n\tb\r\x00ü":                       "a\n\tbü",
		"\u202aa\u202bb\u202cc\u202dd\u202ee": "abcde",
		"\u2066a\u2067b\u2068c\u2069":         "abc",
		"\u2029a\u202fb\u2065c\u206ad":        "\u2029a\u202fb\u2065c\u206ad",
	} {
		if got := Safe(text); got != want {
			t.Errorf("Safe(%q) = %q", text, got)
		}
	}

	for width, want := range map[int]string{3: "üb…", 5: "über…", 6: "überal", 9: "überal"} {
		if got := truncate.Ellipsis("überal", width); got != want {
			t.Errorf("Cut at width %d = %q, want %q", width, got, want)
		}
	}
}

// TestNoProgressWithoutTerminal checks that, without a terminal, lines are not truncated and no
// progress is shown.
func TestNoProgressWithoutTerminal(t *testing.T) {
	t.Parallel()
	var out, complaints bytes.Buffer
	c := &Console{In: strings.NewReader(""), Out: &out, Err: &complaints}
	p := c.Progress(false, "working on %d", 1)
	p.Sayf("still working")
	p.Done()
	long := strings.Repeat("x", 500)
	if err := c.Printf("%s\n", c.Cut(long)); err != nil {
		t.Fatal(err)
	}
	if out.String() != long+"\n" || complaints.Len() > 0 || c.Watched() || c.Interactive() || c.Typed() || c.Width() != 0 {
		t.Errorf("printed %d bytes to Out and %q to Err", out.Len(), complaints.String())
	}
}

// TestProgressMakesRoom checks that printed lines do not mix with a progress line.
func TestProgressMakesRoom(t *testing.T) {
	t.Parallel()
	var both bytes.Buffer
	c := &Console{Out: &both, Err: &both, errTerminal: true}
	c.showProgress("working")
	c.Notef("noted")
	c.showProgress("working")
	if err := c.Printf("printed\n"); err != nil {
		t.Fatal(err)
	}

	want := clearLine + "working" + clearLine + "noted\n" + clearLine + "working" + clearLine + "printed\n"
	if both.String() != want {
		t.Errorf("%q, want %q", both.String(), want)
	}
}

// TestOutputDoesNotControlTheTerminal passes text with control characters to each method of a
// console.
func TestOutputDoesNotControlTheTerminal(t *testing.T) {
	t.Parallel()
	const sent, shown = "a\x1b[2J\u202eb", "a[2Jb"
	var out, complaints bytes.Buffer
	c := &Console{Out: &out, Err: &complaints}
	c.Notef("said %s", sent)
	p := c.Progress(true, "working")
	p.Sayf("after: %s\nsince then", sent)
	p.Done()
	if err := c.Printf("%s\n", sent); err != nil {
		t.Fatal(err)
	}
	if out.String() != shown+"\n" || complaints.String() != "said "+shown+"\n" || p.text != "after: "+shown+" since then" {
		t.Errorf("%q, %q, %q", out.String(), complaints.String(), p.text)
	}
}

// TestProgressGoesAway checks that the progress line is removed from a terminal.
func TestProgressGoesAway(t *testing.T) {
	t.Parallel()
	for _, quiet := range []bool{false, true} {
		var complaints bytes.Buffer
		c := &Console{Err: &complaints, Out: os.Stdout, errTerminal: true}
		c.Progress(quiet, "working").Done()
		shown := complaints.String()
		if quiet && shown != "" || !quiet && (!strings.Contains(shown, "working  0s") || !strings.HasSuffix(shown, clearLine)) {
			t.Errorf("quiet %v: %q", quiet, shown)
		}
	}
}
