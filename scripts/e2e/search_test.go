package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/text/encoding/simplifiedchinese"

	"parley/scripts/internal/api"
	"parley/shared/testkit/openaistub"
)

// web is a SearXNG instance and its web pages on one loopback address.
type web struct {
	url  string
	host string

	mu      sync.Mutex
	pages   map[string]page // by path
	results map[string][]string
	fetched []string
}

type page struct {
	title, contentType string
	body               []byte
}

func newWeb(t *testing.T) *web {
	t.Helper()
	w := &web{pages: map[string]page{}, results: map[string][]string{}}
	server := site(t, w)
	w.url, w.host = server.URL, strings.TrimPrefix(server.URL, "http://")
	return w
}

// put adds a web page to the results of searches for a word.
func (w *web) put(word, path, title, contentType string, body []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pages[path] = page{title, contentType, body}
	w.results[word] = append(w.results[word], path)
}

// ServeHTTP serves search results in SearXNG's JSON format at /search, and pages at other paths.
func (w *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.URL.Path != "/search" {
		w.fetched = append(w.fetched, r.URL.String())
		found, ok := w.pages[r.URL.Path]
		if !ok {
			http.NotFound(rw, r)
			return
		}
		rw.Header().Set("Content-Type", found.contentType)
		_, _ = rw.Write(found.body)
		return
	}

	query := r.URL.Query().Get("q")
	results := []map[string]any{}
	for word, paths := range w.results {
		for _, path := range paths {
			if strings.Contains(query, word) {
				results = append(results, map[string]any{
					"url": w.url + path, "title": w.pages[path].title, "content": "What " + w.pages[path].title + " says.",
					"engine": "stub", "engines": []string{"stub"}, "score": 1.0, "category": "general", "parsed_url": []string{"http", w.host, path},
				})
			}
		}
	}

	slices.SortFunc(results, func(a, b map[string]any) int { return strings.Compare(a["url"].(string), b["url"].(string)) })
	writeJSON(rw, map[string]any{
		"query": query, "number_of_results": len(results), "results": results, "answers": []any{}, "corrections": []any{}, "infoboxes": []any{},
		"suggestions": []any{}, "unresponsive_engines": []any{},
	})
}

// writeJSON sends a JSON response.
func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(value); err != nil {
		panic(err)
	}
}

func article(lang, title string, paragraphs ...string) []byte {
	return []byte(`<!doctype html><html lang="` + lang + `"><head><meta charset="utf-8"><title>` + title + `</title></head><body><nav>Home Shop Login</nav>` +
		`<article><h1>` + title + `</h1><p>` + strings.Join(paragraphs, "</p><p>") + `</p></article><footer>Imprint</footer></body></html>`)
}

// searcher creates an agent that searches the web.
func (a account) searcher(t *testing.T, model string) account {
	t.Helper()
	a.agent = api.CreateAgent(t, a.url, a.key, map[string]any{
		"name": "Researcher", "systemPrompt": "Answer from the web.", "model": model,
		"tools": map[string]any{"webSearch": map[string]any{"enabled": true}},
	})
	return a
}

// toolResult is the result of one tool call, as the model receives it in its messages.
type toolResult struct {
	Untrusted bool `json:"untrusted"`
	Sources   []struct {
		ID    int    `json:"id"`
		Title string `json:"title"`
		URL   string `json:"url"`
		Text  string `json:"text"`
	} `json:"sources"`
}

// toolResultsIn decodes the tool results in a model call's messages. It returns an error unless
// each result is an object that is marked as untrusted.
func toolResultsIn(req openaistub.Request) (results []toolResult, err error) {
	for _, m := range req.Messages {
		if m.Role != "tool" {
			continue
		}
		var one toolResult
		if err := json.Unmarshal([]byte(m.Content), &one); err != nil {
			return nil, fmt.Errorf("a tool result is not an object: %w: %s", err, m.Content)
		}
		if !one.Untrusted {
			return nil, fmt.Errorf("a tool result is not marked: %s", m.Content)
		}
		results = append(results, one)
	}
	return results, nil
}

// citationsHold uses a model that gives correct and wrong citations in an answer with emoji and
// Chinese. Each citation of the run must lead to its source, quote a text that occurs in the
// source, and select the words of the message that it supports.
func citationsHold(t *testing.T, s *service) { //nolint:thelper // a subtest, not a helper
	const question = "How tall is the tower?"
	pages := s.web
	chinese, err := simplifiedchinese.GB18030.NewEncoder().Bytes(article("zh-CN", "埃菲尔铁塔",
		"埃菲尔铁塔是位于法国巴黎战神广场的铁制镂空塔。", "铁塔高三百三十米，是巴黎最高的建筑物。它每年接待近七百万名游客。"))
	if err != nil {
		t.Fatal(err)
	}
	chinese = []byte(strings.Replace(string(chinese), `charset="utf-8"`, `charset="gb18030"`, 1))
	pages.put("tower", "/en", "The tower", "text/html; charset=utf-8", article("en", "The tower",
		"The Eiffel Tower is a wrought-iron lattice tower on the Champ de Mars in Paris, France.",
		"The tower is 330 metres tall, about the same height as an 81-storey building. It was the tallest structure in the world for 41 years. 🗼"))
	pages.put("tower", "/zh", "铁塔", "text/html; charset=gb18030", chinese)
	s.model.follow(func(req openaistub.Request) (openaistub.Reply, bool) {
		if req.Prompt() != question {
			return openaistub.Reply{}, false
		}
		results, err := toolResultsIn(req)
		if err != nil {
			return openaistub.Reply{Text: err.Error()}, true
		}
		if len(results) == 0 {
			return openaistub.Reply{ToolCalls: []openaistub.ToolCall{{ID: "call_1", Name: "webSearch", Arguments: `{"query":"tower height"}`}}}, true
		}
		english, chinese := 0, 0
		for _, s := range results[0].Sources {
			switch u, _ := url.Parse(s.URL); {
			case u.Path == "/en" && strings.Contains(s.Text, "330 metres"):
				english = s.ID
			case u.Path == "/zh" && strings.Contains(s.Text, "三百三十米"):
				chinese = s.ID
			}
		}
		return openaistub.Reply{Text: fmt.Sprintf("👩‍🚀 Hello! The tower is 330 m tall 🗼 [%d \"330 metres tall\"]. 铁塔高三百三十米[%d “铁塔高三百三十米”]。"+
			" It was painted by aliens [%d \"painted by aliens\"]. It stands on Mars [99]. Many people visit it [%d].", english, chinese, english, chinese)}, true
	})
	in := s.first
	owner := signUp(t, in.url).searcher(t, modelName)
	got := owner.post(t.Context(), trigger{message: question}).Want(t, http.StatusOK)
	var r api.Run
	got.Into(t, &r)
	if r.Status != "completed" || r.CitationsRemoved != 2 || len(r.Citations) != 3 {
		t.Fatalf("want three citations and two removed: %s", got.Body)
	}
	supported := []string{"The tower is 330 m tall 🗼", "铁塔高三百三十米", "Many people visit it"}
	quoted := []string{"330 metres tall", "铁塔高三百三十米", ""}
	for i, cited := range r.Citations {
		words := string([]rune(r.Message)[cited.StartIndex:cited.EndIndex])
		if words != supported[i] || quoted[i] != "" && cited.CitedText != quoted[i] || cited.Type != "web" || cited.Title == "" || cited.URL == "" {
			t.Errorf("citation %d supports %q: %+v", i, words, cited)
		}
		var source struct {
			ID, URL, Title, Language, Text string
		}
		owner.get(t.Context(), "/api/sources?id="+cited.SourceID).Want(t, http.StatusOK).Into(t, &source)
		if cited.CitedText == "" || !strings.Contains(source.Text, cited.CitedText) || source.URL != cited.URL || source.ID != cited.SourceID {
			t.Errorf("citation %d does not occur in its source: %+v in %+v", i, cited, source)
		}
	}
	for _, gone := range []string{"[99", "painted green", `"330`} {
		if strings.Contains(r.Message, gone) {
			t.Errorf("the message contains %q: %s", gone, r.Message)
		}
	}
	foreign := signUp(t, in.url)
	api.Send(t.Context(), http.MethodGet, in.url+"/api/sources?id="+r.Citations[0].SourceID, map[string]string{"x-api-key": foreign.key}, nil).Refused(t, http.StatusNotFound, "not_found")
}

// offlineModelCites searches the web with the offline model, which needs no provider's key. The
// answer must cite a web page.
func offlineModelCites(t *testing.T, s *service) { //nolint:thelper // a subtest, not a helper
	pages := s.web
	pages.put("lighthouse", "/l", "Lighthouses", "text/html; charset=utf-8", article("en", "Lighthouses",
		"The lighthouse of Alexandria was built between 280 and 247 BC and stood about one hundred metres high.",
		"Its light could be seen from far away, and sailors told stories about it for centuries to come."))

	in := s.first
	owner := signUp(t, in.url).searcher(t, "offline")
	began := time.Now()
	got := owner.post(t.Context(), trigger{message: "How high was the lighthouse of Alexandria?"}).Want(t, http.StatusOK)
	var r api.Run
	got.Into(t, &r)
	if r.Status != "completed" || len(r.Citations) == 0 || !strings.Contains(r.Message, "one hundred metres") || !strings.Contains(r.Message, "[1]") {
		t.Fatalf("after %s: %s", time.Since(began), got.Body)
	}

	for _, cited := range r.Citations {
		if words := string([]rune(r.Message)[cited.StartIndex:cited.EndIndex]); words == "" || strings.Contains(words, "[") {
			t.Errorf("text that a citation supports = %q", words)
		}
	}
}
