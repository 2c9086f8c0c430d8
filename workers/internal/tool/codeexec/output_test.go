package codeexec_test

import (
	"fmt"
	"strings"
	"testing"

	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/python"
)

func TestOutputsAreCutToWhatAModelReads(t *testing.T) {
	t.Parallel()
	long := func(n int) string {
		var b strings.Builder
		for line := 1; b.Len() < n; line++ {
			fmt.Fprintf(&b, "line %d\n", line)
		}
		return b.String()
	}
	files := (&fakeFiles{}).add("stdout.txt", "an earlier call's")
	o := python.Outcome{
		Stdout: long(100_000), Stderr: long(20_000), Value: "'" + long(20_000) + "'", Written: 5_000_000, Limit: sandbox.LimitOutput,
		Files: []python.File{{Name: "stderr.txt", Content: []byte("the program's own")}},
	}
	got, message := call(t, &fakeInterpreter{outcome: o}, files, true, `{"code":"1"}`)
	if message != "" || got.Limit != "output" || got.names() != "stderr.txt stdout-2.txt stderr-2.txt" {
		t.Fatalf("%s; %s; %s", message, got.Limit, got.names())
	}
	if string(files.made[1].Content) != o.Stdout || string(files.made[2].Content) != o.Stderr || files.made[1].MIMEType != "text/plain" {
		t.Errorf("kept %d and %d bytes", len(files.made[1].Content), len(files.made[2].Content))
	}
	for name, c := range map[string]struct {
		whole, shown string
		maximum      int
	}{"stdout": {o.Stdout, got.Stdout, 24 << 10}, "stderr": {o.Stderr, got.Stderr, 8 << 10}, "value": {o.Value, got.Value, 8 << 10}} {
		head, tail, cut := strings.Cut(c.shown, "\n… ")
		left, tail, _ := strings.Cut(tail, " bytes left out …\n")
		if !cut || !strings.HasPrefix(c.whole, head) || !strings.HasSuffix(c.whole, tail) || left != fmt.Sprint(len(c.whole)-len(head)-len(tail)) ||
			len(c.shown) > c.maximum || len(c.shown) < c.maximum*3/4 {
			t.Errorf("%s: %d bytes, %s left out: %.200s", name, len(c.shown), left, c.shown)
		}
	}
	for _, words := range []string{
		"stdout is truncated; the stored part is in the file stdout-2.txt.", "stderr is truncated; the stored part is in the file stderr-2.txt.",
		"The value is truncated", "Only the first 1 MiB of the output are kept; it had 5000000 bytes.",
	} {
		if !strings.Contains(got.Note, words) {
			t.Errorf("nothing of %q: %s", words, got.Note)
		}
	}
}

// TestAnyOutputFits: the output is within its limit even if all parts have the maximum size and the
// longest encoding.
func TestAnyOutputFits(t *testing.T) {
	t.Parallel()
	for _, c := range []string{"x", "\x01", "\x00", "\"", "\\", "\u2028", "\ufffd", "ü", "😀", "\n", "<", "\x7f", "\U000e0001"} {
		text := strings.Repeat(c, (64<<10)/len(c))
		o := python.Outcome{Stdout: text, Stderr: text, Value: text, Traceback: text, Limit: sandbox.LimitMemory, Written: 1 << 40}
		files := &fakeFiles{}
		for n := range 200 {
			name := fmt.Sprint(n, "/", strings.Repeat(strings.Trim(c, "\x00\x01\n"), 200/len(c)))
			if len(c) > 0 && (c == "\x01" || c == "\x00" || c == "\n" || c == "\x7f") {
				name = fmt.Sprint(n, "/", strings.Repeat("x", 200))
			}
			o.Files = append(o.Files, python.File{Name: name}, python.File{Name: "\x01" + name})
			o.LeftOut = append(o.LeftOut, strings.Repeat(c, 200)+"\xff")
			files.add(name, "")
		}
		for n := range files.session {
			files.session[n].Bytes = 1 << 20
		}
		for _, failed := range []bool{false, true} {
			if !failed {
				o.Traceback, o.Limit = "", ""
			} else {
				o.Traceback, o.Limit = text, sandbox.LimitMemory
			}
			got, _ := call(t, &fakeInterpreter{outcome: o}, files, true, `{"code":"1"}`) // call also checks the size of the output
			if len(got.Files) != len(files.made) {
				t.Errorf("%q: %d files are kept, %d are listed", c, len(files.made), len(got.Files))
			}
			if got.Stdout == "" || !strings.Contains(got.Stdout, "left out") || len(got.Files) == 0 || len(got.LeftOut) == 0 || got.Note == "" || (got.Error != "") != failed {
				t.Errorf("%q: %d files, %d left out, note %.100s", c, len(got.Files), len(got.LeftOut), got.Note)
			}
		}
	}
}

func TestShortOutputsAreWhole(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "42\n", strings.Repeat("x", 8<<10), strings.Repeat("\"", 4<<10), strings.Repeat("ü", 4<<10)} {
		files := &fakeFiles{}
		got, _ := call(t, &fakeInterpreter{outcome: python.Outcome{Stdout: text, Stderr: text, Value: text, Written: int64(2 * len(text))}}, files, false, `{"code":"1"}`)
		if got.Stdout != text || got.Stderr != text || got.Value != text || got.Note != "" || got.Limit != "" || files.kept != 0 {
			t.Errorf("%.10q: %d and %d bytes; %s", text, len(got.Stdout), len(got.Value), got.Note)
		}
	}
}

func TestMIMETypes(t *testing.T) {
	t.Parallel()
	const png, pdf, zip = "\x89PNG\r\n\x1a\n\x00\x00", "%PDF-1.7\n", "PK\x03\x04\x14\x00"
	for _, c := range []struct{ name, content, want string }{
		{"a.png", png, "image/png"},
		{"a.PNG", png, "image/png"},
		{"a.png", "no picture", "application/octet-stream"},
		{"a.png", "<svg onload=alert(1)>", "application/octet-stream"},
		{"a.png", "", "application/octet-stream"},
		{"a.png", "GIF89a", "image/gif"},
		{"a.jpg", "\xff\xd8\xff\xe0", "image/jpeg"},
		{"a.webp", "RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"},
		{"a.csv", "a,b\n1,2\n", "text/csv"},
		{"a.csv", "a\x00b", "application/octet-stream"},
		{"a.csv", "\xff\xfe\x41", "application/octet-stream"},
		{"a.csv", png, "image/png"},
		{"dir.csv/data", "words", "text/plain"},
		{"a.json", "{}", "application/json"},
		{"a.html", "<html>", "text/html"},
		{"a.svg", "<svg/>", "image/svg+xml"},
		{"a.md", "# ü", "text/markdown"},
		{"a.pdf", pdf, "application/pdf"},
		{"a.xlsx", zip, "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
		{"a.xlsx", "no table", "application/octet-stream"},
		{"a.zip", zip, "application/zip"},
		{"a", "<html><script>", "text/plain"},
		{"a", "", "text/plain"},
		{"a", png, "image/png"},
		{"a", pdf, "application/pdf"},
		{"a", "\x7fELF\x02\x01\x01\x00", "application/octet-stream"},
		{"a.unknown", "text", "text/plain"},
		{"a.npy", "\x93NUMPY", "application/octet-stream"},
		{"a.", "text", "text/plain"},
		{".png", png, "image/png"},
	} {
		files := &fakeFiles{}
		call(t, &fakeInterpreter{outcome: python.Outcome{Files: []python.File{{Name: c.name, Content: []byte(c.content)}}}}, files, false, `{"code":"1"}`)
		if got := files.made[0].MIMEType; got != c.want {
			t.Errorf("%s of %q: %s", c.name, c.content, got)
		}
	}
}
