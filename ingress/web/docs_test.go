package web

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"parley/ingress/internal/openapi"
)

var (
	fragments = regexp.MustCompile(`href="#([^"]+)"`)
	anchors   = regexp.MustCompile(`\sid="([^"]+)"`)
)

// TestDocsPages checks that the pages of the documentation load nothing, run nothing and escape
// their data. The fragments in links must exist.
func TestDocsPages(t *testing.T) {
	t.Parallel()
	evil := `<script>alert(1)</script>`
	ref := openapi.Read()
	docs, err := RenderDocs(Docs{Reference: ref, BaseURL: evil})
	if err != nil {
		t.Fatal(err)
	}
	codes, err := RenderErrors(Errors{
		Title: evil, Version: "1", Example: evil, Codes: openapi.ErrorCodes(),
		Fields: openapi.Words("FieldErrorCode"), Runs: openapi.Words("RunErrorCode"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, page := range map[string][]byte{"docs": docs, "errors": codes} {
		if found := inline.Find(page); found != nil {
			t.Errorf("%s contains inline content: %q", name, found)
		}
		there := map[string]bool{}
		for _, id := range anchors.FindAllSubmatch(page, -1) {
			if there[string(id[1])] {
				t.Errorf("%s has a duplicate id %s", name, id[1])
			}
			there[string(id[1])] = true
		}
		for _, link := range fragments.FindAllSubmatch(page, -1) {
			if !there[string(link[1])] {
				t.Errorf("%s links to #%s, which does not exist", name, link[1])
			}
		}
		for _, part := range []string{"<!doctype html>", `lang="en"`, "viewport", `<main id="content">`, "</html>"} {
			if !bytes.Contains(page, []byte(part)) {
				t.Errorf("%s lacks %s", name, part)
			}
		}
	}
	for _, code := range openapi.ErrorCodes() {
		if !bytes.Contains(codes, []byte(` id="`+code.Code+`"`)) {
			t.Errorf("the page of errors lacks the anchor %s", code.Code)
		}
		if bytes.Count(docs, []byte(`/docs/errors#`+code.Code+`"`)) == 0 && code.Code != "method_not_allowed" {
			t.Errorf("no operation in docs has the code %s", code.Code)
		}
	}
}

func TestLLMs(t *testing.T) {
	t.Parallel()
	ref := openapi.Read()
	text, err := RenderLLMs(LLMs{Docs: Docs{Reference: ref, BaseURL: "https://h"}, Samples: ref.Featured()})
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"# Parley\n", "https://h/openapi.json", "https://h/docs", "tenant_demo", "x-api-key", "/api/internal/run-automation", `{"sessionId":`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("llms.txt lacks %s", part)
		}
	}
	if len(text) > 12_000 {
		t.Errorf("llms.txt has %d bytes, want at most 12,000", len(text))
	}
}
