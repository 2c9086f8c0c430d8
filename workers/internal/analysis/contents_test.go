package analysis_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"parley/workers/internal/analysis"
)

// contents returns a table of contents. leader is the text between an entry and its page number, as
// in text that was extracted from a PDF.
func contents(entries int, leader string) string {
	var b strings.Builder
	for n := range entries {
		fmt.Fprintf(&b, "%d.%d ASN_%d schema functions %s %d\n", n/9+1, n%9+1, n, strings.Repeat(leader, 70), n+1)
	}
	return b.String()
}

func TestContentsDoNotHideTheLanguage(t *testing.T) {
	t.Parallel()
	for language, text := range samples {
		if language == "ja" || language == "zh" { // the language is detected from single characters, which must be the majority
			continue
		}
		for leader, entries := range map[string]int{". ": 40, ".": 60, "·": 60, "_": 30, " .": 100} {
			whole := contents(entries, leader) + strings.Repeat(text+"\n", 12_000/len(text))
			if got := analysis.Detect(whole); got != language {
				t.Errorf("%s is detected as %q after %d entries with %q", language, got, entries, leader)
			}
		}
	}
	for _, leader := range []string{". ", "."} {
		short := "The handling of structures " + strings.Repeat(leader, 60) + "2\nThe names of the fields and what they are for " +
			strings.Repeat(leader, 70) + "3\nWhat is to be done with it " + strings.Repeat(leader, 80) + "12\n"
		if got := analysis.Detect(short); got != "en" {
			t.Errorf("contents alone are detected as %q", got)
		}
	}
	for name, text := range map[string]string{
		"numbers": strings.Repeat("12.5 | 2026-11-21 | 33 % | kg\n", 1000),
		"hex":     strings.Repeat("deadbeef cafe0123 9f86d081884c7d65 ", 500),
		"dots":    strings.Repeat(". . . . . . . . . . . . 12\n", 1000),
	} {
		if got := analysis.Detect(text); got != "" {
			t.Errorf("most of %s is detected as %q", name, got)
		}
	}
}

// TestManualsWithContents reads manuals from Debian packages. The manuals are in English and begin
// with a table of contents.
func TestManualsWithContents(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/usr/share/doc/libtasn1-doc/libtasn1.pdf", "/usr/share/doc/nettle-dev/nettle.pdf.gz"} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			text := textFor(t, path)
			for _, limit := range []int{20_000, 40_000} {
				if got := analysis.Detect(text[:min(limit, len(text))]); got != "en" {
					t.Errorf("language detected from %d bytes = %q", limit, got)
				}
			}
		})
	}
}

// textFor returns the text of a PDF file, which may be compressed.
func textFor(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Skipf("NOT TESTED: the language of %s, which is not on this machine", path)
	}
	if _, err := exec.LookPath("pdftotext"); err != nil {
		t.Skipf("NOT TESTED: the language of %s: there is no pdftotext on this machine", path)
	}
	if strings.HasSuffix(path, ".gz") {
		packed, err := gzip.NewReader(bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		if content, err = io.ReadAll(packed); err != nil {
			t.Fatal(err)
		}
	}
	here := filepath.Join(t.TempDir(), "manual.pdf")
	if err := os.WriteFile(here, content, 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := exec.CommandContext(t.Context(), "pdftotext", "-enc", "UTF-8", here, "-").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
