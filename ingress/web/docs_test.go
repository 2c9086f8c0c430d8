package web

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"parley/ingress/internal/guides"
	"parley/ingress/internal/openapi"
)

var (
	fragments = regexp.MustCompile(`href="#([^"]+)"`)
	between   = regexp.MustCompile(`href="(/docs/[^"#]+)#([^"]+)"`)
	anchors   = regexp.MustCompile(`\sid="([^"]+)"`)
)

// TestDocsPages checks that the pages of the documentation load nothing, run nothing and escape
// their data. The fragments in links within a page and between the pages must exist.
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
	schemas, err := RenderSchemas(Docs{Reference: ref})
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string][]byte{"/docs/api": docs, "/docs/api/schemas": schemas, "/docs/errors": codes}
	for name, page := range pages {
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
	checkLinksBetween(t, pages)
	for _, schema := range ref.Schemas {
		for name, page := range map[string][]byte{"/docs/api": docs, "/docs/api/schemas": schemas} {
			if !bytes.Contains(page, []byte(` id="`+schema.Anchor+`"`)) {
				t.Errorf("%s lacks the anchor %s", name, schema.Anchor)
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

// checkLinksBetween checks that the fragments in links from one page to another exist. The argument
// pages contains the pages by path.
func checkLinksBetween(t *testing.T, pages map[string][]byte) {
	t.Helper()
	for name, page := range pages {
		for _, link := range between.FindAllSubmatch(page, -1) {
			if to := pages[string(link[1])]; to != nil && !bytes.Contains(to, []byte(` id="`+string(link[2])+`"`)) {
				t.Errorf("%s links to %s#%s, which does not exist", name, link[1], link[2])
			}
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

// TestGuidesUseTheBaseURL checks that the code on a page of the documentation contains the
// service's own URL.
func TestGuidesUseTheBaseURL(t *testing.T) {
	t.Parallel()
	guide, err := guides.Read()
	if err != nil {
		t.Fatal(err)
	}
	for _, chapter := range guide.Chapters {
		for _, page := range chapter.Pages {
			shown, err := RenderGuides(Guides{Chapters: guide.Chapters, Page: page, BaseURL: "https://parley.test/<b>"})
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(shown, []byte(guides.LocalURL)) || bytes.Contains(shown, []byte("parley.test/<b>")) {
				t.Errorf("%s contains the URL of another service, or HTML of the URL", page.Path)
			}
			if page.Path == "guides/cron" && !bytes.Contains(shown, []byte("PARLEY_BASE_URL=https://parley.test/&lt;b&gt;\n")) {
				t.Errorf("%s does not contain the service's URL", page.Path)
			}
		}
	}
}

// TestGuidesOfPages checks the links from pages of the dashboard to guides. The guides, and the
// sections that the links name, must exist.
func TestGuidesOfPages(t *testing.T) {
	t.Parallel()
	guide, err := guides.Read()
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, chapter := range guide.Chapters {
		for _, page := range chapter.Pages {
			there[page.Path] = true
			for _, id := range anchors.FindAllStringSubmatch(string(page.Body), -1) {
				there[page.Path+"#"+id[1]] = true
			}
		}
	}
	links := regexp.MustCompile(`guide(?:=|: )"([^"]*)"`)
	found := 0
	for _, pattern := range []string{"dashboard/pages/*.tsx", "dashboard/pages/*/*.tsx"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, link := range links.FindAllSubmatch(source, -1) {
				found++
				if !there[string(link[1])] {
					t.Errorf("%s links to the guide %s, which does not exist", file, link[1])
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("%d links to guides, want at least 10", found)
	}
}
