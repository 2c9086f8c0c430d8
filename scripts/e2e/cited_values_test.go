package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/scripts/internal/api"
	"parley/shared/testkit"
	"parley/shared/testkit/openaistub"
)

// factsSchema is the schema of the answers. Its property names must be escaped in a JSON Pointer.
const factsSchema = `{"type":"object","required":["facts"],"additionalProperties":false,"properties":{"facts":{"type":"array","items":{
	"type":"object","additionalProperties":false,"required":["a/b"],"properties":{"a/b":{"type":["string","number"]},"m~n":{"type":"boolean"}}}}}}`

// factCount is the number of facts in an answer.
const factCount = 40

// corpusModel is a model that answers from the passages that a search returned. Its answers contain
// values that occur in the passages, values that do not, and citations for all of these values.
type corpusModel struct {
	queries map[string]string // by prompt
	seed    uint64

	mu      sync.Mutex
	answers map[string]*corpusAnswer // by prompt
}

// corpusAnswer is an answer of the model. For each citation, it records whether the citation is
// right.
type corpusAnswer struct {
	facts    []fact
	passages map[int]string // the text of each source, by the source's ID
	fault    error
}

// respond first calls the search of documents, and then answers. It is the script that the
// cluster's model provider follows.
func (m *corpusModel) respond(req openaistub.Request) (openaistub.Reply, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	query, mine := m.queries[req.Prompt()]
	results, err := toolResultsIn(req)
	switch {
	case !mine:
		return openaistub.Reply{}, false
	case err != nil:
		m.answers[req.Prompt()] = &corpusAnswer{fault: err}
		return openaistub.Reply{Text: "{}"}, true
	case len(results) == 0:
		words, err := json.Marshal(query)
		if err != nil {
			panic(err)
		}
		return openaistub.Reply{ToolCalls: []openaistub.ToolCall{{ID: "call_1", Name: "knowledge", Arguments: `{"limit":10,"query":` + string(words) + `}`}}}, true
	}

	a := &corpusAnswer{passages: map[int]string{}}
	var sources []corpusSource
	for _, s := range results[0].Sources {
		a.passages[s.ID] = s.Text
		sources = append(sources, newCorpusSource(s.ID, s.Title, s.Text))
	}
	var n uint64
	for _, r := range req.Prompt() {
		n = 31*n + uint64(r)
	}
	g := factGenerator{Rand: rand.New(rand.NewPCG(m.seed, n)), sources: sources}
	for len(sources) > 0 && len(a.facts) < factCount {
		a.facts = append(a.facts, g.fact(len(a.facts)))
	}
	m.answers[req.Prompt()] = a
	return openaistub.Reply{Text: a.text()}, true
}

// text returns the answer in the format that the service's prompt requests from models.
func (a *corpusAnswer) text() string {
	var values, citations []string
	for _, f := range a.facts {
		values = append(values, `{"a/b":`+f.value+`,"m~n":true}`)
		for _, c := range f.citations {
			citations = append(citations, fmt.Sprintf(`{"path":%q,"source":%d}`, c.path, c.source))
		}
	}
	return `{"data":{"facts":[` + strings.Join(values, ", ") + `]}, "citations":[` + strings.Join(citations, ",") + `]}`
}

// corpus uploads the documents of the corpus. It returns the beginning of each document's text, by
// name.
func corpus(t *testing.T, owner account) map[string]string {
	t.Helper()
	own, err := filepath.Glob(filepath.Join("testdata", "values", "*"))
	if err != nil || len(own) == 0 {
		t.Fatal(len(own), err)
	}
	for _, name := range []string{"performance", "settings", "tools", "streams", "budgets", "models", "webhooks", "openai"} {
		own = append(own, filepath.Join(testkit.Root(t), "docs", name+".md"))
	}
	texts, ids := map[string]string{}, []string{}
	for _, file := range own {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(file)] = string(raw)
		ids = append(ids, owner.upload(t, filepath.Base(file), raw, "").ID)
	}
	for _, id := range ids {
		if d := owner.processed(t, id, 60*time.Second); d.Status != "ready" {
			t.Fatalf("%+v", d)
		}
	}
	return texts
}

// factsRun contains the fields of a run whose data cites documents.
type factsRun struct {
	api.Run

	Output struct {
		Data struct {
			Facts []map[string]json.RawMessage `json:"facts"`
		} `json:"data"`
	} `json:"output"`
}

// TestCitedValuesOfACorpus asks an agent with an output schema about Markdown and CSV documents in
// eight languages. The model takes numbers, dates, names and table cells from the passages that it
// received. It also invents values, and cites a source for every value. A run must keep the
// citations whose value occurs in the source, and remove and count all others. The test decides
// with its own, stricter rules whether a value occurs in a source, and does not use values for
// which this is doubtful.
func TestCitedValuesOfACorpus(t *testing.T) {
	t.Parallel()
	runs := 300
	if testing.Short() {
		runs = 24
	}
	model := &corpusModel{queries: map[string]string{}, answers: map[string]*corpusAnswer{}, seed: testkit.Seed(t)}
	c := newCluster(t, sandboxed, "LIMIT_USER=50000") // a fast machine sends more than 300 requests a minute
	c.model.follow(model.respond)
	in := c.ingress(t)
	c.worker(t)
	owner := signUp(t, in.url).reader(t, modelName)
	texts := corpus(t, owner)
	names := make([]string, 0, len(texts))
	for name := range texts {
		names = append(names, name)
	}
	slices.Sort(names)

	tally := factTally{}
	read := map[string]bool{}
	for n := range runs {
		name := names[n%len(names)]
		prompt := "facts " + strconv.Itoa(n)
		model.mu.Lock()
		model.queries[prompt] = queryFor(texts[name], n)
		model.mu.Unlock()
		got := owner.send(t, http.MethodPost, owner.url+"/api/agents?id="+owner.agent+"&action=chat", map[string]any{
			"sessionId": "facts-" + strconv.Itoa(n), "message": prompt, "output": map[string]any{"schema": json.RawMessage(factsSchema)},
		}).Want(t, http.StatusOK)
		var r factsRun
		got.Into(t, &r)
		model.mu.Lock()
		a := model.answers[prompt]
		model.mu.Unlock()
		if r.Status != "completed" || a == nil || a.fault != nil || len(a.passages) == 0 {
			t.Fatalf("run %d about %s: answer %+v, %s", n, name, a, got.Body)
		}
		tally.add(t, a, &r)
		for _, cited := range r.Citations {
			if !read[cited.URL] { // each passage once
				read[cited.URL] = true
				inDocument(t, owner, cited.URL, a.passages[cited.ID])
			}
		}
	}
	tally.report(t, len(texts), runs)
}

// queryFor returns some words of a text as a query. The argument n selects the position of the
// words.
func queryFor(text string, n int) string {
	words := strings.Fields(text)
	from := n * 97 % len(words)
	query := strings.Join(words[from:min(from+12, len(words))], " ")
	return string([]rune(query)[:min(200, len([]rune(query)))])
}

// inDocument fails the test unless the document contains the passage at the cited address.
func inDocument(t *testing.T, owner account, address, passage string) {
	t.Helper()
	var part struct {
		Passages []struct {
			Text string `json:"text"`
		} `json:"passages"`
	}
	owner.get(t.Context(), address).Want(t, http.StatusOK).Into(t, &part)
	for _, p := range part.Passages {
		if passage != "" && p.Text == passage {
			return
		}
	}
	t.Errorf("%s: none of %d passages is the one that the model received: %.100q", address, len(part.Passages), passage)
}

// factTally counts citations by kind of fact.
type factTally map[string]*factCounts

// factCounts counts the citations of one kind of fact.
type factCounts struct {
	cited, right   int // according to the generator
	kept, removed  int
	wrongKept      int // must be 0
	rightRemoved   int // must be 0
	firstDisagrees string
}

// add counts the citations in the model's answer that a run has kept, and those that it has
// removed.
func (f factTally) add(t *testing.T, a *corpusAnswer, r *factsRun) {
	t.Helper()
	type key struct {
		path string
		id   int
	}
	kept := map[key]bool{}
	for _, c := range r.Citations {
		kept[key{c.Path, c.ID}] = true
		value := string([]rune(r.Message)[c.StartIndex:c.EndIndex])
		n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(c.Path, "/facts/"), "/a~1b"))
		if err != nil || n >= len(a.facts) || value != a.facts[n].value || !sameValue(value, r.Output.Data.Facts[n]["a/b"]) {
			t.Fatalf("%s cites %q, want the value %s: %v", c.Path, value, a.facts[min(n, len(a.facts)-1)].value, err)
		}
		if c.CitedText == "" || !strings.Contains(a.passages[c.ID], c.CitedText) || c.DocumentID == "" {
			t.Errorf("%s quotes %q, which is not in its source", c.Path, c.CitedText)
		}
	}
	distinct := map[key]bool{}
	for _, fact := range a.facts {
		counts := f[fact.kind]
		if counts == nil {
			counts = &factCounts{}
			f[fact.kind] = counts
		}
		for _, c := range fact.citations {
			k := key{c.path, c.source}
			if distinct[k] {
				continue // a repeated citation counts once
			}
			distinct[k] = true
			counts.count(c.stands, kept[k], fmt.Sprintf("%s of %s in %q", fact.value, c.path, a.passages[c.source]))
		}
	}
	if len(kept) != len(r.Citations) || len(kept)+r.CitationsRemoved != len(distinct) {
		t.Errorf("%d citations, %d removed, want %d together", len(r.Citations), r.CitationsRemoved, len(distinct))
	}
}

// sameValue reports whether two JSON texts have the same value. Comparing the texts is not enough,
// because the run object and its message may escape different characters.
func sameValue(a string, b json.RawMessage) bool {
	var one, other any
	return json.Unmarshal([]byte(a), &one) == nil && json.Unmarshal(b, &other) == nil && one == other
}

// count counts one citation. The argument stands is true if the value occurs in the source. The
// argument kept is true if the run kept the citation.
func (f *factCounts) count(stands, kept bool, what string) {
	f.cited++
	if stands {
		f.right++
	}
	if kept {
		f.kept++
	} else {
		f.removed++
	}
	if kept != stands && f.firstDisagrees == "" {
		f.firstDisagrees = what
	}
	if kept && !stands {
		f.wrongKept++
	}
	if stands && !kept {
		f.rightRemoved++
	}
}

// report prints the counts. It fails the test if a run kept a wrong citation or removed a right
// one.
func (f factTally) report(t *testing.T, documents, runs int) {
	t.Helper()
	var all factCounts
	kinds := make([]string, 0, len(f))
	for kind := range f {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		c := f[kind]
		t.Logf("%-40s %5d cited, %5d right: %5d kept, %5d removed", kind, c.cited, c.right, c.kept, c.removed)
		if c.wrongKept+c.rightRemoved > 0 {
			t.Errorf("%s: %d wrong ones are kept, %d right ones are removed: %s", kind, c.wrongKept, c.rightRemoved, c.firstDisagrees)
		}
		all.cited, all.right, all.kept, all.removed, all.wrongKept = all.cited+c.cited, all.right+c.right, all.kept+c.kept, all.removed+c.removed, all.wrongKept+c.wrongKept
	}
	if all.right < 10*runs || all.cited-all.right < 10*runs || len(kinds) != len(factKinds) {
		t.Errorf("%d right citations of %d in %d runs, %d kinds: the generator no longer produces a mixture", all.right, all.cited, runs, len(kinds))
	}
	t.Logf("%d runs about %d documents: %d citations, of which %d are of values in their source; %d kept (%.2f %% of them stand there), %d removed and counted",
		runs, documents, all.cited, all.right, all.kept, 100*float64(all.kept-all.wrongKept)/float64(max(all.kept, 1)), all.removed)
}
