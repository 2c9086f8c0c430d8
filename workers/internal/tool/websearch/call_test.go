package websearch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/text/encoding/simplifiedchinese"

	"parley/shared/domain"
	"parley/workers/internal/tool"
)

// fakeSources stores texts by their content, like the real store.
type fakeSources struct {
	mu   sync.Mutex
	kept map[string]domain.Source
	err  error
}

func (s *fakeSources) keep(_ context.Context, source domain.Source) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return "", s.err
	}
	if s.kept == nil {
		s.kept = map[string]domain.Source{}
	}
	id := fmt.Sprintf("src_%x", source.Text)
	s.kept[id] = source
	return id, nil
}

func request(s *fakeSources, query string) tool.Request {
	arguments, err := json.Marshal(map[string]string{"query": query})
	if err != nil {
		panic(err)
	}
	return tool.Request{Call: tool.Call{ID: "c1", Name: "webSearch", Arguments: arguments}, Keep: s.keep}
}

// newWeb returns a backend that uses a SearXNG engine, and the server of the pages that the engine
// finds.
func newWeb(t *testing.T, pages http.Handler, paths ...string) (*Backend, *httptest.Server) {
	t.Helper()
	site := httptest.NewServer(pages)
	t.Cleanup(site.Close)
	engine := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		var results []map[string]string
		for _, p := range paths {
			results = append(results, map[string]string{"url": site.URL + p, "title": "Result " + p, "content": "Snippet of " + p})
		}
		if err := json.NewEncoder(w).Encode(map[string]any{"results": results}); err != nil {
			t.Error(err)
		}
	})
	b, err := New(Config{SearxngURL: engine.URL}, loopbackClient(t, site))
	if err != nil {
		t.Fatal(err)
	}
	return b, site
}

func pageFor(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		fmt.Fprint(w, body)
	}
}

// search makes a call and checks conditions that every result must satisfy.
func search(t *testing.T, b *Backend, query string) (output, []domain.Citation, *fakeSources) {
	t.Helper()
	var s fakeSources
	result, err := b.Call(t.Context(), request(&s, query))
	if err != nil {
		t.Fatal(err)
	}
	var out output
	if err := json.Unmarshal(result.Output, &out); err != nil {
		t.Fatal(err)
	}
	for _, c := range result.Sources {
		if c.Type != "web" || c.Title == "" || c.SourceID == nil || c.ID != 0 {
			t.Errorf("source %+v", c)
			continue
		}
		source := s.kept[*c.SourceID]
		if !strings.Contains(source.Text, c.CitedText) || c.CitedText == "" || source.URL != c.URL || source.Title != c.Title {
			t.Errorf("source %+v differs from the stored source %+v", c, source)
		}
		if source.Characters != len([]rune(source.Text)) || source.ReadAt.IsZero() {
			t.Errorf("kept as %+v", source)
		}
	}
	return out, result.Sources, &s
}

func TestCall(t *testing.T) {
	t.Parallel()
	gb, err := simplifiedchinese.GB18030.NewEncoder().String(testdata(t, "river.zh.html"))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/news", pageFor("text/html; charset=utf-8", testdata(t, "news.en.html")))
	mux.HandleFunc("/river", pageFor("text/html; charset=GB18030", gb))
	mux.HandleFunc("/turm", pageFor("text/html", testdata(t, "turm.de.html")))
	mux.HandleFunc("/nile", pageFor("text/html", testdata(t, "nile.ar.html")))
	mux.HandleFunc("/notes.txt", pageFor("text/plain; charset=utf-8", "Notes 🎉\n\nThe Elm is a river."))
	mux.HandleFunc("/sixth", func(http.ResponseWriter, *http.Request) { t.Error("a sixth page was read") })
	b, site := newWeb(t, mux, "/news", "/river", "/turm", "/nile", "/notes.txt", "/sixth")
	if b.Kind() != "webSearch" {
		t.Error(b.Kind())
	}
	out, sources, kept := search(t, b, "river Elm")
	want := []string{"/news", "/river", "/turm", "/nile", "/notes.txt"}
	if out.Query != "river Elm" || len(out.Results) != len(want) || len(sources) != len(want) {
		t.Fatalf("got %+v, %+v", out, sources)
	}
	languages := []string{"en-GB", "zh", "de", "ar", ""}
	for i, path := range want {
		if out.Results[i].URL != site.URL+path || sources[i].URL != site.URL+path || out.Results[i].Snippet != "Snippet of "+path {
			t.Errorf("%d is %+v, %+v", i, out.Results[i], sources[i])
		}
		if got := kept.kept[*sources[i].SourceID].Language; got != languages[i] {
			t.Errorf("%s: language %q", path, got)
		}
	}
	if sources[1].Title != "长江 - 百科" || !strings.Contains(sources[1].CitedText, "全长约6300公里") || out.Results[4].Title != "Result /notes.txt" {
		t.Errorf("got %+v, %+v", sources[1], out.Results[4])
	}
}

func TestUnreadablePagesGiveTheirSnippets(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"404": http.NotFound,
		"403": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, "<p>Robots are not welcome.")
		},
		"402":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusPaymentRequired) },
		"pdf":  pageFor("application/pdf", "%PDF-1.7 text"),
		"json": pageFor("application/json", `{"text":"words"}`),
		"no type": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			fmt.Fprint(w, "<p>words")
		},
		"image":   pageFor("image/png", "\x89PNG"),
		"paywall": pageFor("text/html", `<script type="application/ld+json">{"isAccessibleForFree":false}</script><p>First words.</p>`),
		"robots":  pageFor("text/html", `<meta name=robots content="nosnippet"><p>Words.</p>`),
		"no text": pageFor("text/html", `<div id=app></div><script src=app.js></script>`),
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99")
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<p>Half a sen")
		},
		"no end": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) },
		"stalled": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		"robots tag": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Robots-Tag", "noarchive")
			pageFor("text/html", "<p>Words.")(w, r)
		},
		"off site": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, site := newWeb(t, handler, "/page")
			if name == "stalled" {
				b.readTime = 100 * time.Millisecond
			}
			out, sources, kept := search(t, b, "anything")
			if len(out.Results) != 1 || len(sources) != 1 || sources[0].CitedText != "Snippet of /page" || sources[0].Title != "Result /page" || sources[0].URL != site.URL+"/page" {
				t.Errorf("got %+v, %+v", out, sources)
			}
			if s := kept.kept[*sources[0].SourceID]; s.Text != "Snippet of /page" || s.Truncated {
				t.Errorf("kept %+v", s)
			}
		})
	}
}

func TestRedirectsAreFollowed(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	for i := range 3 {
		mux.Handle(fmt.Sprintf("/%d", i+1), http.RedirectHandler(fmt.Sprintf("/%d", i), http.StatusFound))
	}
	mux.Handle("/4", http.RedirectHandler("/3", http.StatusFound))
	mux.HandleFunc("/0", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.Header.Get("Cookie") != "" || r.Header.Get("Authorization") != "" || r.Header.Get("X-Subscription-Token") != "" {
			t.Errorf("the page was requested with %s %v", r.Method, r.Header)
		}
		pageFor("text/html", "<title>Zero</title><p>Where it led.")(w, r)
	})
	b, site := newWeb(t, mux, "/3", "/4", "/1")
	out, sources, _ := search(t, b, "anything")
	if len(sources) != 2 || sources[0].CitedText != "Where it led." || sources[0].URL != site.URL+"/0" || sources[1].CitedText != "Snippet of /4" {
		t.Errorf("got %+v", sources) // the third page is omitted, because it has the same text as the first page
	}
	if len(out.Results) != 3 || out.Results[0].Title != "Zero" || out.Results[0].URL != site.URL+"/0" {
		t.Errorf("got %+v", out)
	}
}

func TestPagesAreReadTogether(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	all.Add(maxResults)
	b, _ := newWeb(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all.Done()
		all.Wait() // returns when all pages have been requested
		pageFor("text/html", "<p>Page "+r.URL.Path)(w, r)
	}), "/1", "/2", "/3", "/4", "/5")
	_, sources, _ := search(t, b, "page")
	if len(sources) != 5 || sources[4].CitedText != "Page /5" {
		t.Errorf("got %+v", sources)
	}
}

func TestLargePagesAreReadInPart(t *testing.T) {
	t.Parallel()
	b, _ := newWeb(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		for range 3 << 10 {
			if _, err := io.WriteString(w, strings.Repeat("Words of a page.\n", 60)); err != nil {
				return
			}
		}
	}), "/large")
	_, sources, kept := search(t, b, "words")
	if len(sources) == 0 || !kept.kept[*sources[0].SourceID].Truncated || !strings.HasPrefix(sources[0].CitedText, "Words of a page.") {
		t.Errorf("got %d sources", len(sources))
	}
}

// TestProviderIsNotAPage: the address of the operator's search engine is not read as a page if it
// is among the results. Only the client of the provider may connect to that address.
func TestProviderIsNotAPage(t *testing.T) {
	t.Parallel()
	var asked []string
	var engine *httptest.Server
	engine = serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		fmt.Fprintf(w, `{"results":[{"url":"%s/admin","title":"Admin","content":"A snippet."}]}`, engine.URL)
	})
	b, err := New(Config{SearxngURL: engine.URL}, loopbackClient(t))
	if err != nil {
		t.Fatal(err)
	}
	_, sources, _ := search(t, b, "admin")
	if len(sources) != 1 || sources[0].CitedText != "A snippet." || len(asked) != 1 {
		t.Errorf("got %+v after %v", sources, asked)
	}
}

func TestNothingFound(t *testing.T) {
	t.Parallel()
	b, _ := newWeb(t, http.NotFoundHandler())
	var s fakeSources
	result, err := b.Call(t.Context(), request(&s, "x"))
	if err != nil || string(result.Output) != `{"query":"x","results":[]}` || len(result.Sources) != 0 {
		t.Errorf("got %s, %+v, %v", result.Output, result.Sources, err)
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	b, _ := newWeb(t, http.NotFoundHandler())
	for _, arguments := range []string{``, `null`, `[]`, `{}`, `{"query":7}`, `{"query":""}`, `{"query":" \u200b "}`, `{"query":"` + strings.Repeat("长", 401) + `"}`} {
		var public *tool.Error
		_, err := b.Call(t.Context(), tool.Request{Call: tool.Call{Arguments: json.RawMessage(arguments)}, Keep: (&fakeSources{}).keep})
		if !errors.As(err, &public) || public.Retryable {
			t.Errorf("%.30s: got %v", arguments, err)
		}
	}
	var s fakeSources
	if _, err := b.Call(t.Context(), request(&s, strings.Repeat("长", 400))); err != nil {
		t.Error(err)
	}
}

func TestKeepingFails(t *testing.T) {
	t.Parallel()
	b, _ := newWeb(t, pageFor("text/html", "<p>Words."), "/page")
	if _, err := b.Call(t.Context(), request(&fakeSources{err: tool.ErrStale}, "x")); !errors.Is(err, tool.ErrStale) {
		t.Errorf("stale: got %v", err)
	}
	var public *tool.Error
	if _, err := b.Call(t.Context(), request(&fakeSources{err: errors.New("database is away")}, "x")); !errors.As(err, &public) || !public.Retryable || strings.Contains(public.Message, "database") {
		t.Errorf("broken: got %v", err)
	}
}

func TestSpec(t *testing.T) {
	t.Parallel()
	s := Spec()
	if _, err := tool.NewRegistry(specTool{}); err != nil || !json.Valid(s.Schema) || s.Name != "webSearch" || s.SideEffect != "" || s.Alone {
		t.Errorf("got %+v, %v", s, err)
	}
}

type specTool struct{}

func (specTool) Spec() tool.Spec { return Spec() }

func (specTool) Call(context.Context, tool.Call) (tool.Result, error) { return tool.Result{}, nil }

// roundTrip adapts a function to http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// readsAs is a function that serves as a response body: the method Read calls the function.
type readsAs func([]byte) (int, error)

func (f readsAs) Read(p []byte) (int, error) { return f(p) }

// textFor returns an HTTP client that gets plain text for every page. The function read returns the
// text.
func textFor(read readsAs) *http.Client {
	return &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		header := http.Header{"Content-Type": {"text/plain"}}
		return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(read), Request: r}, nil
	})}
}

// TestAPanicOfAPage: a panic while a page is parsed affects only that page.
func TestAPanicOfAPage(t *testing.T) {
	t.Parallel()
	b, _ := newWeb(t, http.NotFoundHandler(), "/1", "/2", "/3")
	b.pages.client = textFor(func([]byte) (int, error) { panic("a page made for that") })
	b.pages.bodies, b.pages.slots = make(chan struct{}, 1), make(chan struct{}, 1) // a panic must release these slots
	_, sources, _ := search(t, b, "anything")
	if len(sources) != 3 || sources[2].CitedText != "Snippet of /3" {
		t.Errorf("got %+v", sources)
	}
}

// TestBodiesAreBounded: all pages are requested, but only a limited number of them is in memory. A
// page from a slow host does not delay pages that have already arrived.
func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun, goOn := make(chan struct{}, maxResults), make(chan struct{})
		r := &reader{bodies: make(chan struct{}, 2), slots: make(chan struct{}, 1), client: textFor(func(p []byte) (int, error) {
			begun <- struct{}{}
			<-goOn
			return copy(p, "Words."), io.EOF
		})}
		b := &Backend{pages: r, readTime: time.Minute}
		hits := slices.Repeat([]hit{{url: "https://a.example/"}}, maxResults)
		pages := make(chan []*page)
		go func() { pages <- b.read(t.Context(), hits) }()
		synctest.Wait()
		if len(begun) != 2 || len(r.bodies) != 2 || len(r.slots) != 0 {
			t.Errorf("%d bodies are read; %d are held, %d taken apart", len(begun), len(r.bodies), len(r.slots))
		}
		close(goOn)
		for i, p := range <-pages {
			if p == nil || p.text != "Words." {
				t.Errorf("%d is %+v", i, p)
			}
		}
		if len(r.bodies) != 0 || len(r.slots) != 0 {
			t.Error("not all slots were released")
		}
	})
}

// TestWaitingForABody: a page that waits for a slot is given up at the time limit for reading.
func TestWaitingForABody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &reader{bodies: make(chan struct{}), slots: make(chan struct{}, 1), client: textFor(func([]byte) (int, error) {
			t.Error("a body was read")
			return 0, io.EOF
		})}
		b := &Backend{pages: r, readTime: time.Second}
		if pages := b.read(t.Context(), []hit{{url: "https://a.example/"}}); pages[0] != nil {
			t.Errorf("got %+v", pages[0])
		}
		synctest.Wait()
	})
}
