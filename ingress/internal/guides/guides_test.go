package guides

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"parley/docs"
)

var target = regexp.MustCompile(`href="(/docs/[^"#]*)?(?:#([^"]*))?"`)

// TestPages checks that every page belongs to a chapter, and that the target of every link between
// pages exists.
func TestPages(t *testing.T) {
	t.Parallel()
	guide, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	files, err := fs.Glob(docs.Pages, "*.md")
	if err != nil {
		t.Fatal(err)
	}
	more, err := fs.Glob(docs.Pages, "guides/*.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, chapter := range guide.Chapters {
		for _, page := range chapter.Pages {
			if shown[page.Path] {
				t.Errorf("two chapters have the page %s", page.Path)
			}
			shown[page.Path] = true
		}
	}
	for _, file := range append(files, more...) {
		if at := strings.TrimSuffix(file, ".md"); guide.pages[at] == nil && at != errorsPage {
			t.Errorf("no chapter has the page %s", at)
		}
	}

	ids := regexp.MustCompile(` id="([^"]+)"`)
	for at, page := range guide.pages {
		if page.Title == "" || page.Summary == "" || strings.HasSuffix(string(page.Summary), ":") {
			t.Errorf("%s: title %q, summary %q", at, page.Title, page.Summary)
		}
		for _, link := range target.FindAllStringSubmatch(string(page.Body), -1) {
			to := page
			if link[1] != "" {
				to = guide.pages[strings.TrimPrefix(link[1], "/docs/")]
			}
			switch {
			case link[1] == "/docs/"+errorsPage:
			case to == nil:
				t.Errorf("%s links to %s, which does not exist", at, link[1])
			case link[2] != "" && !hasID(ids, to, link[2]):
				t.Errorf("%s links to %s#%s, which does not exist", at, to.Path, link[2])
			}
		}
	}
}

// TestSummary checks that the summary of a page keeps the code of the first paragraph, and omits a
// last sentence that ends with a colon.
func TestSummary(t *testing.T) {
	t.Parallel()
	for paragraph, want := range map[string]string{
		"Run agents.\nUse `a < b`, or *this*.":              "Run agents. Use <code>a &lt; b</code>, or this.",
		"See [the\nguide](a.md). `make run` works. Then:":   "See the guide. <code>make run</code> works.",
		"Set `A.` first. Replace `ag_…` with\nthe agent's:": "Set <code>A.</code> first.",
		"Set **Parley** as the `connection`:":               "Set Parley as the <code>connection</code>.",
	} {
		page, err := render("page", []byte("# Title\n\n"+paragraph+"\n\n    code\n"))
		if err != nil || string(page.Summary) != want {
			t.Errorf("the summary of %q is %q, %v; want %q", paragraph, page.Summary, err, want)
		}
	}
}

func hasID(ids *regexp.Regexp, page *Page, anchor string) bool {
	for _, id := range ids.FindAllStringSubmatch(string(page.Body), -1) {
		if id[1] == anchor {
			return true
		}
	}
	return false
}

func TestSearch(t *testing.T) {
	t.Parallel()
	guide, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{ // query, and path of the best result
		"cron":                 "guides/cron",
		"rotating secrets_key": "operations#rotating-secrets_key",
		"webhooks":             "webhooks",
		"structured output":    "structured-output",
		"budgets":              "budgets",
		"voice":                "voice",
		"model settings":       "models#settings-of-an-agents-model",
		"idempotency":          "quickstart#run-it-once-per-idempotency-key",
		"retries":              "openai#retries",
		"embeddings":           "openai#embeddings",
		"zzznothing":           "",
		"   ":                  "",
	} {
		found := guide.Search(query)
		switch {
		case want == "" && len(found) > 0:
			t.Errorf("%q found %+v", query, found[0])
		case want != "" && (len(found) == 0 || !strings.HasPrefix(found[0].Path, want)):
			t.Errorf("%q found %+v, want %s first", query, found, want)
		}
		for _, r := range found {
			if len([]rune(r.Excerpt)) > maxExcerpt+10 || r.Page == "" {
				t.Errorf("%q: result %+v", query, r)
			}
		}
		if len(found) > maxResults {
			t.Errorf("%q: %d results", query, len(found))
		}
	}
	if got := guide.Search(strings.Repeat("a ", 100)); len(got) > maxResults {
		t.Errorf("%d results", len(got))
	}
}

// TestVariables checks that a page explains the variables of its code before the first code that
// uses a variable. The page does not explain variables that its code sets.
func TestVariables(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ source, summary, before string }{
		"shell":      {"Read it:\n\n```sh\ncurl \"$PARLEY_BASE_URL/api/runs?id=$RUN\"\n```\n", "<code>$PARLEY_BASE_URL</code> and <code>$RUN</code>", "curl"},
		"one":        {"```js\nconsole.log(process.env.PARLEY_API_KEY)\n```\n", "<code>$PARLEY_API_KEY</code>", "console"},
		"set before": {"```sh\nexport AGENT_ID=ag_1\n```\n\n```sh\necho \"$AGENT_ID\" \"$RUN\"\n```\n", "<code>$RUN</code>", "echo"},
		"set":        {"```sh\nRUN=$(start)\necho \"$RUN\"\n```\n", "", ""},
		"not code":   {"Set `PARLEY_API_KEY`:\n\n```cron\nPARLEY_API_KEY=ak_…\n0 7 * * *  echo \"$AGENT_ID\"\n```\n", "", ""},
	} {
		page, err := render("page", []byte("# Title\n\n"+c.source))
		if err != nil {
			t.Fatal(err)
		}
		body := string(page.Body)
		box, code := strings.Index(body, `<details class="variables"><summary>Set `+c.summary+" first</summary>"), strings.Index(body, c.before)
		if c.summary == "" && strings.Contains(body, "<details") || c.summary != "" && (box < 0 || code < box || strings.Count(body, "<details") != 1) {
			t.Errorf("%s: %s", name, body)
		}
		for _, s := range page.sections {
			if strings.Contains(s.text, "environment") {
				t.Errorf("%s: the search finds the explanation: %q", name, s.text)
			}
		}
	}
}

// TestCellLabels checks that the cells of a wide table have the headers of their columns as labels,
// except the first cell of each row.
func TestCellLabels(t *testing.T) {
	t.Parallel()
	page, err := render("page", []byte("# Title\n\n| `source` | signed by | \"id\" |\n|---|---|---|\n| `a` | b |  |\n| c | d | e |\n\n| x | y |\n|---|---|\n| 1 | 2 |\n"))
	if err != nil {
		t.Fatal(err)
	}
	body := string(page.Body)
	for _, cell := range []string{"<td><code>a</code></td>", `<td data-label="signed by">b</td>`, "<td></td>", `<td data-label="&quot;id&quot;">e</td>`, "<td>2</td>"} {
		if !strings.Contains(body, cell) {
			t.Errorf("no cell %s in %s", cell, body)
		}
	}
}
