package websearch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/shared/outbound"
	"parley/workers/internal/tool"
)

// loopbackClient returns a client that may connect to the given servers on loopback.
func loopbackClient(t *testing.T, allowed ...*httptest.Server) *outbound.Client {
	t.Helper()
	var cfg outbound.Config
	for _, s := range allowed {
		cfg.Allow = append(cfg.Allow, s.Listener.Addr().String())
	}
	client, err := outbound.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

// engines contains the providers. Each has a response in the format of the provider's
// documentation.
var engines = []struct {
	name   string
	config func(address string) Config
	check  func(*http.Request, string) string // returns an error text if the request for "river Elm" is wrong
	answer string
	none   string // response that contains no results
	first  hit
}{
	{
		"SearXNG",
		func(a string) Config {
			return Config{SearxngURL: a + "/sx/", BraveAPIKey: "unused", TavilyAPIKey: "unused"}
		},
		func(r *http.Request, _ string) string {
			return diff(r.Method+" "+r.URL.Path+" "+r.URL.Query().Get("q")+" "+r.URL.Query().Get("format"), "GET /sx/search river Elm json")
		},
		`{"query":"river Elm","number_of_results":2,"results":[{"url":"https://example.org/elm","title":"The  Elm","content":"A river\nof <stone>.","thumbnail":null,"engine":"duckduckgo",
		"template":"default.html","parsed_url":["https","example.org","/elm","","",""],"engines":["duckduckgo","brave"],"positions":[1,3],"score":1.3,"category":"general","publishedDate":null},
		{"url":"https://example.com/oak","title":"Oak","content":"","engine":"brave"}],"answers":[],"corrections":[],"infoboxes":[],"suggestions":["elm tree"],"unresponsive_engines":[["google","CAPTCHA"]]}`,
		`{"query":"river Elm","number_of_results":0,"results":[],"answers":[],"corrections":[],"infoboxes":[],"suggestions":[],"unresponsive_engines":[]}`,
		hit{"The Elm", "https://example.org/elm", "A river of <stone>."},
	},
	{
		"Brave",
		func(a string) Config {
			return Config{BraveAPIKey: "brave-key", BraveURL: a, TavilyAPIKey: "unused", WikipediaURL: "https://unused.example"}
		},
		func(r *http.Request, _ string) string {
			return diff(r.Method+" "+r.URL.Path+" "+r.URL.Query().Get("q")+" "+r.Header.Get("X-Subscription-Token"), "GET /res/v1/web/search river Elm brave-key")
		},
		`{"type":"search","query":{"original":"river Elm","more_results_available":true},"mixed":{"type":"mixed","main":[{"type":"web","index":0,"all":false}]},
		"web":{"type":"search","results":[{"title":"The Elm &amp; more","url":"https://example.org/elm","is_source_local":false,"description":"A <strong>river</strong> of stone.","page_age":"2026-05-04T00:00:00",
		"profile":{"name":"Example"},"language":"en","family_friendly":true,"type":"search_result","subtype":"generic","meta_url":{"scheme":"https","netloc":"example.org"}},{"title":"Oak","url":"https://example.com/oak"}],"family_friendly":true}}`,
		`{"type":"search","query":{"original":"river Elm"}}`,
		hit{"The Elm & more", "https://example.org/elm", "A river of stone."},
	},
	{
		"Tavily",
		func(a string) Config {
			return Config{TavilyAPIKey: "tvly-key", TavilyURL: a, WikipediaURL: "https://unused.example"}
		},
		func(r *http.Request, body string) string {
			var asked struct {
				Query string `json:"query"`
			}
			if err := json.Unmarshal([]byte(body), &asked); err != nil {
				return err.Error()
			}
			return diff(r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type")+" "+asked.Query+" "+r.Header.Get("Authorization"), "POST /search application/json river Elm Bearer tvly-key")
		},
		`{"query":"river Elm","follow_up_questions":null,"answer":null,"images":[],"results":[{"url":"https://example.org/elm","title":"The Elm","content":"A river of stone.","score":0.87,"raw_content":null},
		{"url":"https://example.com/oak","title":"Oak","content":"Trees.","score":0.5,"raw_content":null}],"response_time":1.12,"request_id":"123e4567"}`,
		`{"query":"river Elm","follow_up_questions":null,"answer":null,"images":[],"results":[],"response_time":0.5}`,
		hit{"The Elm", "https://example.org/elm", "A river of stone."},
	},
	{
		"MediaWiki",
		func(a string) Config { return Config{WikipediaURL: a} },
		func(r *http.Request, _ string) string {
			q := r.URL.Query()
			return diff(r.Method+" "+r.URL.Path+" "+q.Get("action")+" "+q.Get("list")+" "+q.Get("srsearch")+" "+q.Get("format"), "GET /w/api.php query search river Elm json")
		},
		`{"batchcomplete":true,"continue":{"sroffset":10,"continue":"-||"},"query":{"general":{"mainpage":"Main Page","sitename":"Wiki","server":"https://example.org","articlepath":"/wiki/$1","scriptpath":"/w","lang":"en"},
		"searchinfo":{"totalhits":2},"search":[{"ns":0,"title":"Elm (river)?","pageid":11,"snippet":"A <span class=\"searchmatch\">river</span> of stone &amp; more"},{"ns":0,"title":"Oak","pageid":12,"snippet":""}]}}`,
		`{"batchcomplete":true,"query":{"general":{"server":"https://example.org","articlepath":"/wiki/$1"},"searchinfo":{"totalhits":0},"search":[]}}`,
		hit{"Elm (river)?", "https://example.org/wiki/Elm_%28river%29%3F", "A river of stone & more"},
	},
}

func diff(got, want string) string {
	if got == want {
		return ""
	}
	return "got " + got + ", want " + want
}

func TestProviders(t *testing.T) {
	t.Parallel()
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			var wrong string
			answer := e.answer
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				wrong = e.check(r, string(body))
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, answer)
			})
			p, err := newProvider(e.config(server.URL), loopbackClient(t), askTimeout)
			if err != nil {
				t.Fatal(err)
			}
			hits, err := p.search(t.Context(), "river Elm")
			if err != nil || wrong != "" {
				t.Fatalf("error %v, request: %s", err, wrong)
			}
			if len(hits) != 2 || hits[0] != e.first || hits[1].title != "Oak" {
				t.Errorf("got %+v", hits)
			}
			answer = e.none
			if hits, err := p.search(t.Context(), "river Elm"); err != nil || len(hits) != 0 {
				t.Errorf("nothing found: got %+v, %v", hits, err)
			}
		})
	}
}

func TestProviderFaults(t *testing.T) {
	t.Parallel()
	status := func(code int, body string, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		}
	}
	faults := []struct {
		name      string
		handler   http.HandlerFunc
		retryable bool
		says      string
	}{
		{"429", status(429, `{"type":"ErrorResponse","error":{"code":"RATE_LIMITED","status":429,"detail":"secret detail"}}`), true, "rate limit"},
		{"429 for a while", status(429, "", "Retry-After", "7"), true, "rate limit"},
		{"429 until next month", status(429, "", "Retry-After", "86400"), false, "rate limit"},
		{"500", status(500, "<html>secret detail</html>"), true, "provider failed"},
		{"503", status(503, ""), true, "provider failed"},
		{"401", status(401, `{"detail":{"error":"secret detail"}}`), false, "settings"},
		{"403", status(403, "Forbidden"), false, "settings"},
		{"432", status(432, `{"detail":{"error":"secret detail"}}`), false, "quota"},
		{"422", status(422, `{"error":{"code":"VALIDATION"}}`), false, "did not accept"},
		{"redirect", status(302, "", "Location", "/elsewhere"), false, ""},
		{"HTML instead of JSON", status(200, "<!doctype html><p>secret detail"), false, "could not be read"},
		{"empty", status(200, ""), false, "could not be read"},
		{"other JSON", status(200, `{"results":"secret detail","web":7,"query":[]}`), false, "could not be read"},
		{"a list", status(200, `[1,2]`), false, "could not be read"},
		{"huge", func(w http.ResponseWriter, _ *http.Request) {
			for range 3 << 10 {
				if _, err := io.WriteString(w, strings.Repeat(" ", 1<<10)); err != nil {
					return
				}
			}
		}, false, "too large"},
		{"cut", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"results":[`)
		}, true, "did not respond"},
		{"slow", func(_ http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil { // read the body, so that the server notices when the client disconnects
				t.Error(err)
			}
			<-r.Context().Done()
		}, true, "did not respond"},
	}
	for _, e := range engines {
		for _, f := range faults {
			t.Run(e.name+" "+f.name, func(t *testing.T) {
				t.Parallel()
				timeout := askTimeout
				if f.name == "slow" {
					timeout = 50 * time.Millisecond
				}
				p, err := newProvider(e.config(serve(t, f.handler).URL), loopbackClient(t), timeout)
				if err != nil {
					t.Fatal(err)
				}
				hits, err := p.search(t.Context(), "river Elm")
				var public *tool.Error
				if !errors.As(err, &public) || public.Retryable != f.retryable || !strings.Contains(public.Message, f.says) {
					t.Fatalf("got %+v, %#v", hits, err)
				}
				if strings.Contains(public.Message, "secret") || strings.Contains(public.Message, "127.0.0.1") || public.Err == nil || strings.Contains(public.Err.Error(), "Elm") {
					t.Errorf("message %q, cause %v", public.Message, public.Err)
				}
			})
		}
	}
}

func TestProviderIsUnreachable(t *testing.T) {
	t.Parallel()
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	server.Close()
	b, err := New(Config{SearxngURL: server.URL}, loopbackClient(t))
	if err != nil {
		t.Fatal(err)
	}
	var public *tool.Error
	if _, err := b.Call(t.Context(), request(&fakeSources{}, "x")); !errors.As(err, &public) || public.Retryable || public.Message != "The search provider did not respond." {
		t.Errorf("got %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Call(ended, request(&fakeSources{}, "x")); !errors.Is(err, context.Canceled) {
		t.Errorf("call that was ended: %v", err)
	}
}

func TestATemporaryFaultIsRetried(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, `{"query":"x","results":[]}`)
	})
	b, err := New(Config{SearxngURL: server.URL}, loopbackClient(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Call(t.Context(), request(&fakeSources{}, "x")); err != nil || asked.Load() != 2 {
		t.Errorf("%v after %d requests", err, asked.Load())
	}
}

func TestSearxngWithoutEngines(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"query":"x","results":[],"unresponsive_engines":[["google","timeout"],["brave","too many requests"]]}`)
	})
	p, err := newProvider(Config{SearxngURL: server.URL}, loopbackClient(t), askTimeout)
	if err != nil {
		t.Fatal(err)
	}
	var public *tool.Error
	if _, err := p.search(t.Context(), "x"); !errors.As(err, &public) || !public.Retryable {
		t.Errorf("got %v", err)
	}
}

func TestWikiErrors(t *testing.T) {
	t.Parallel()
	for code, retryable := range map[string]bool{
		"ratelimited": true, "maxlag": true, "readonly": true, "internal_api_error_DBQueryError": true, "cirrussearch-too-busy-error": true,
		"readapidenied": false, "srsearch-text-disabled": false, "": false,
	} {
		server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Mediawiki-Api-Error", code)
			fmt.Fprint(w, `{"error":{"code":"`+code+`","info":"secret detail","docref":"See …"}}`)
		})
		p, err := newProvider(Config{WikipediaURL: server.URL + "/wiki-scripts/api.php"}, loopbackClient(t), askTimeout)
		if err != nil {
			t.Fatal(err)
		}
		var public *tool.Error
		if _, err := p.search(t.Context(), "x"); !errors.As(err, &public) || public.Retryable != retryable || strings.Contains(public.Message, "secret") {
			t.Errorf("%s: got %#v", code, err)
		}
	}
}

func TestWikiAddresses(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{
		"https://de.wikipedia.org":             "https://de.wikipedia.org/w/api.php",
		"https://de.wikipedia.org/":            "https://de.wikipedia.org/w/api.php",
		"https://wiki.example/mediawiki/":      "https://wiki.example/mediawiki/api.php",
		"http://127.0.0.1:8000/w/api.php":      "http://127.0.0.1:8000/w/api.php",
		"https://wiki.example/api.php?x=1#top": "https://wiki.example/api.php",
	} {
		at, err := endpoint("WIKIPEDIA_URL", set)
		if err != nil {
			t.Fatal(err)
		}
		if got := (mediawiki{at: at}).script().String(); got != want {
			t.Errorf("%s: got %s, want %s", set, got, want)
		}
	}
	at, err := endpoint("WIKIPEDIA_URL", "https://wiki.example:8443")
	if err != nil {
		t.Fatal(err)
	}
	var answer wikiAnswer
	for _, c := range []struct{ server, path, want string }{
		{"", "", "https://wiki.example:8443/wiki/AC/DC_&_Co"},
		{"//de.wikipedia.org", "/wiki/$1", "https://de.wikipedia.org/wiki/AC/DC_&_Co"},
		{"https://wiki.example", "/index.php?title=$1", "https://wiki.example/index.php?title=AC/DC_&_Co"},
	} {
		answer.Query.General.Server, answer.Query.General.ArticlePath = c.server, c.path
		if got := (mediawiki{at: at}).page(answer, "AC/DC & Co"); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

func TestSettingsThatAreNoAddress(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{{SearxngURL: "localhost:8080"}, {BraveAPIKey: "k", BraveURL: "ftp://x"}, {TavilyAPIKey: "k", TavilyURL: "/x"}, {WikipediaURL: "wiki"}} {
		if _, err := New(cfg, loopbackClient(t)); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
	b, err := New(Config{}, loopbackClient(t))
	if err != nil {
		t.Fatal(err)
	}
	if wiki, ok := b.search.(mediawiki); !ok || wiki.at.String() != wikipediaURL {
		t.Errorf("without settings: %+v", b.search)
	}
}

func TestCheckOfTheProvider(t *testing.T) {
	t.Parallel()
	b, _ := newWeb(t, http.NotFoundHandler(), "/a", "/b")
	if detail, err := b.Check(t.Context()); b.Provider() != "searxng" || detail != "2 results" || err != nil {
		t.Errorf("%s: %q, %v", b.Provider(), detail, err)
	}
}
