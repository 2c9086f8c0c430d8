package toolserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/store/lease"
	"parley/workers/internal/tool"
)

// fakeDocuments contains documents of an organization, and logs the calls of its methods.
type fakeDocuments struct {
	documents []domain.Document
	text      map[string]string // original contents by document id
	err       error
	gone      []string // documents that are deleted before Give is called
	stale     bool
	log       []string
}

func (s *fakeDocuments) GiveDocuments(_ context.Context, held lease.Held, ids []string) ([]string, bool, error) {
	s.log = append(s.log, fmt.Sprintf("give %s %s %d %s", held.OrganizationID, held.RunID, held.Fence, strings.Join(ids, ",")))
	given := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(s.gone, id) })
	slices.Reverse(given)
	return given, !s.stale, s.err
}

func (s *fakeDocuments) DocumentByID(_ context.Context, org, id string) (domain.Document, error) {
	s.log = append(s.log, "find "+org+" "+id)
	for _, d := range s.documents {
		if d.ID == id {
			return d, s.err
		}
	}
	return domain.Document{}, apierr.New(apierr.NotFound, "no such document")
}

func (s *fakeDocuments) OpenDocument(ctx context.Context, org, id string) (domain.Document, io.ReadSeekCloser, error) {
	d, err := s.DocumentByID(ctx, org, id)
	s.log[len(s.log)-1] = "open " + org + " " + id
	return d, content{strings.NewReader(s.text[id])}, err
}

func document(id, text string, status domain.DocumentStatus, metadata map[string]string) domain.Document {
	return domain.Document{ID: id, Name: id + ".txt", Bytes: int64(len(text)), Status: status, Metadata: metadata}
}

// documentsFor calls the function do with the documents that a call can access. It returns the
// result of do, and the log of the calls.
func documentsFor(t *testing.T, docs fakeDocuments, knowledge *domain.KnowledgeTool, do func(context.Context, tool.Documents) (string, error)) (string, string) {
	t.Helper()
	tools := endpoints
	tools.Knowledge = knowledge
	o, said := newOffice(tools), ""
	o.docs = docs
	start(t, o, prometheus.NewRegistry(), backend{kind: contract.ToolHTTPRequest, call: func(ctx context.Context, r tool.Request) (tool.Result, error) {
		var err error
		if said, err = do(ctx, r.Documents); err != nil {
			said = "error: " + err.Error()
		}
		return tool.Result{}, err
	}})
	reply := o.answer(t, sealed(t, capability(), request(false)))
	if stale := replySummary(reply) == "stale"; stale != docs.stale {
		t.Errorf("answered %s", replySummary(reply))
	}
	return said, strings.Join(o.docs.log, "; ")
}

func library() fakeDocuments {
	sales := map[string]string{"team": "sales", "year": "2026"}
	return fakeDocuments{text: map[string]string{"doc_a": "Alpha", "doc_b": "Beta"}, documents: []domain.Document{
		document("doc_a", "Alpha", domain.DocumentReady, sales), document("doc_b", "Beta", domain.DocumentReady, nil),
		document("doc_q", "Queued", domain.DocumentQueued, sales), document("doc_f", "Failed", domain.DocumentFailed, sales),
	}}
}

// TestDocumentsAreTheAgents: a call can access only documents that its agent may read, even if the
// model names others.
func TestDocumentsAreTheAgents(t *testing.T) {
	t.Parallel()
	find := func(ctx context.Context, d tool.Documents) (string, error) {
		found, err := d.Find(ctx, []string{"doc_b", "doc_q", "doc_none", "doc_a", "doc_f"})
		var ids []string
		for _, one := range found {
			ids = append(ids, one.ID)
		}
		return strings.Join(ids, " "), err
	}
	for name, c := range map[string]struct {
		knowledge *domain.KnowledgeTool
		want      string
	}{
		"all":               {&domain.KnowledgeTool{Enabled: true}, "doc_b doc_a"},
		"none":              {nil, ""},
		"not enabled":       {&domain.KnowledgeTool{DocumentIDs: []string{"doc_a"}}, ""},
		"listed":            {&domain.KnowledgeTool{Enabled: true, DocumentIDs: []string{"doc_a", "doc_q"}}, "doc_a"},
		"with metadata":     {&domain.KnowledgeTool{Enabled: true, Metadata: map[string]string{"team": "sales"}}, "doc_a"},
		"with other values": {&domain.KnowledgeTool{Enabled: true, Metadata: map[string]string{"team": "sales", "year": "2025"}}, ""},
		"with an empty one": {&domain.KnowledgeTool{Enabled: true, Metadata: map[string]string{"region": ""}}, ""},
		"listed, and with":  {&domain.KnowledgeTool{Enabled: true, DocumentIDs: []string{"doc_b"}, Metadata: map[string]string{"team": "sales"}}, ""},
	} {
		if got, log := documentsFor(t, library(), c.knowledge, find); got != c.want || !strings.HasPrefix(log, "find org_1 doc_b; ") {
			t.Errorf("%s: %q; %s", name, got, log)
		}
	}
	away := library()
	away.err = errors.New("the database is away")
	if got, _ := documentsFor(t, away, &domain.KnowledgeTool{Enabled: true}, find); got != "error: finding document: the database is away" {
		t.Errorf("got %s", got)
	}
}

func TestDocumentsAreNotedBeforeTheyAreRead(t *testing.T) {
	t.Parallel()
	all := library()
	read := func(ctx context.Context, d tool.Documents) (string, error) {
		raw, err := d.Read(ctx, []domain.Document{all.documents[1], all.documents[0]})
		var texts []string
		for _, one := range raw {
			texts = append(texts, string(one))
		}
		return strings.Join(texts, " "), err
	}
	const given = "give org_1 run_1 3 doc_b,doc_a"
	boom := errors.New("the database is away")
	for name, c := range map[string]struct {
		with      func(*fakeDocuments)
		knowledge domain.KnowledgeTool
		want, log string
	}{
		"read":        {func(*fakeDocuments) {}, domain.KnowledgeTool{Enabled: true}, "Beta Alpha", given + "; open org_1 doc_b; open org_1 doc_a"},
		"not allowed": {func(*fakeDocuments) {}, domain.KnowledgeTool{Enabled: true, DocumentIDs: []string{"doc_b"}}, "error: " + tool.ErrGone.Error(), ""},
		"gone":        {func(s *fakeDocuments) { s.gone = []string{"doc_a"} }, domain.KnowledgeTool{Enabled: true}, "error: " + tool.ErrGone.Error(), given},
		"gone later":  {func(s *fakeDocuments) { s.documents = s.documents[1:] }, domain.KnowledgeTool{Enabled: true}, "error: reading doc_a: " + tool.ErrGone.Error(), given + "; open org_1 doc_b; open org_1 doc_a"},
		"replaced": {func(s *fakeDocuments) {
			s.documents = []domain.Document{document("doc_b", "Larger", domain.DocumentReady, nil)}
		}, domain.KnowledgeTool{Enabled: true}, "error: reading doc_b: " + tool.ErrGone.Error(), given + "; open org_1 doc_b"},
		"other content": {func(s *fakeDocuments) { s.text["doc_b"] = "Bet" }, domain.KnowledgeTool{Enabled: true}, "error: reading doc_b: the document's content does not match its record", given + "; open org_1 doc_b"},
		"more content":  {func(s *fakeDocuments) { s.text["doc_b"] = "Betas" }, domain.KnowledgeTool{Enabled: true}, "error: reading doc_b: the document's content does not match its record", given + "; open org_1 doc_b"},
		"taken over":    {func(s *fakeDocuments) { s.stale = true }, domain.KnowledgeTool{Enabled: true}, "error: " + tool.ErrStale.Error(), given},
		"away":          {func(s *fakeDocuments) { s.err = boom }, domain.KnowledgeTool{Enabled: true}, "error: noting documents: the database is away", given},
	} {
		docs := library()
		c.with(&docs)
		if got, log := documentsFor(t, docs, &c.knowledge, read); got != c.want || log != c.log {
			t.Errorf("%s: %s; %s", name, got, log)
		}
	}
}

func TestGivenDocumentsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	docs := library()
	docs.gone = []string{"doc_b"}
	got, _ := documentsFor(t, docs, &domain.KnowledgeTool{Enabled: true}, func(ctx context.Context, d tool.Documents) (string, error) {
		given, err := d.Give(ctx, []string{"doc_c", "doc_b", "doc_a"})
		return strings.Join(given, " "), err
	})
	if got != "doc_c doc_a" {
		t.Errorf("got %s", got)
	}
	if got, log := documentsFor(t, library(), nil, func(ctx context.Context, d tool.Documents) (string, error) {
		given, err := d.Give(ctx, nil)
		return fmt.Sprint(len(given)), err
	}); got != "0" || log != "" {
		t.Errorf("none: %s; %s", got, log)
	}
}
