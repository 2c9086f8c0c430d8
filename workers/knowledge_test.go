package workers_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/shared/config"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store/knowledgedb"
	"parley/workers"
	"parley/workers/internal/analysis"
)

// manual contains the text of each page of a manual. The answer to the test's question is on page
// 7.
var manual = []string{
	"Helmets are worn on site.", "Visitors sign the book at the gate.", "Fire drills take place in spring and in autumn.", "The crane lifts 12 tonnes.",
	"Spill kits stand beside every tank.", "Gloves are changed daily.", "Ladders are inspected every 90 days. The inspector signs the log.", "Noise above 85 dB needs ear muffs.",
}

// keep adds a document to the organization. The document is ready, and each page is one passage.
func (r *testEnv) keep(name string, metadata map[string]string, pages ...string) string {
	r.Helper()
	ctx := r.Context()
	upload, err := r.store.Blobs.Upload(ctx, r.org, strings.NewReader(strings.Join(pages, "\n")), 1<<20)
	if err != nil {
		r.Fatal(err)
	}
	added, err := r.store.Knowledge.AddDocuments(ctx, r.org, []knowledgedb.NewDocument{{
		ID: id.New(id.Document), Name: name, MIMEType: "text/plain", Metadata: metadata, Content: &upload, CreatedBy: "usr_1",
	}}, knowledgedb.DocumentLimits{})
	if err != nil {
		r.Fatal(err)
	}
	claimed, err := r.store.Knowledge.ClaimDocuments(ctx, knowledgedb.DocumentClaim{Max: 10})
	if err != nil || len(claimed) != 1 || claimed[0].ID != added[0].Document.ID {
		r.Fatalf("claimed %+v, %v", claimed, err)
	}
	var chunks []knowledgedb.NewChunk
	var counts knowledgedb.TermCounts
	for n, text := range pages {
		page := n + 1
		var terms []knowledgedb.Term
		for _, l := range analysis.Terms("en", text) {
			terms = append(terms, knowledgedb.Term{Lexeme: l.Text, Positions: []int{l.Position}})
		}
		counts.Add(terms)
		chunks = append(chunks, knowledgedb.NewChunk{
			Passage: domain.Passage{Chunk: n, Page: &page, Headings: []string{}, Text: text, EndIndex: len(text)}, Terms: terms,
		})
	}
	held, total := claimed[0].LeasedDocument, len(pages)
	if kept, err := r.store.Knowledge.AddChunks(ctx, held, chunks, "", &total, total); err != nil || !kept {
		r.Fatalf("adding chunks: %v, %v", kept, err)
	}
	end := knowledgedb.FinishedDocument{MIMEType: "text/plain", Language: "en", Pages: &total, Terms: counts}
	if kept, err := r.store.Knowledge.FinishDocument(ctx, held, end); err != nil || !kept {
		r.Fatalf("finishing: %v, %v", kept, err)
	}
	return held.ID
}

func withKnowledge(k domain.KnowledgeTool) domain.Tools {
	k.Enabled = true
	return domain.Tools{Knowledge: &k}
}

const asksForLadders = "How often are ladders inspected?"

// An answer from page 7 cites page 7, with words from that page.
func TestAnswersCiteTheirPages(t *testing.T) {
	t.Parallel()
	r := newTestEnvFor(t, config.Workers{}, workers.RoleAgent, workers.RoleTool)
	doc := r.keep("manual.pdf", map[string]string{"team": "site"}, manual...)
	all := r.agentWith("offline", withKnowledge(domain.KnowledgeTool{}))
	run := r.result(r.start(all, "s", asksForLadders))
	if run.Status != domain.RunCompleted || len(run.Citations) != 1 || len(run.ToolCalls) != 1 || run.ToolCalls[0].Status != "completed" {
		t.Fatalf("%+v, %+v", run, run.Error)
	}
	c := run.Citations[0]
	supported := string([]rune(*run.Message)[c.StartIndex:c.EndIndex])
	if c.Type != "document" || c.DocumentID == nil || *c.DocumentID != doc || c.Page == nil || *c.Page != 7 || c.Title != "manual.pdf" ||
		c.URL != "/api/knowledge?id="+doc+"&page=7" || !strings.Contains(manual[6], c.CitedText) || supported != "Ladders are inspected every 90 days." {
		t.Errorf("%+v supports %q", c, supported)
	}
	_, events := r.logFor(run.ID)
	at := slices.IndexFunc(events, func(e domain.Event) bool { return e.Type == domain.EventCitationAdded })
	if at < 0 || !strings.Contains(string(events[at].Data), `"documentId":"`+doc+`","page":7`) {
		t.Errorf("events: %+v", events)
	}
	for message, agent := range map[string]string{
		"What is the capital of Mongolia?": all,
		asksForLadders:                     r.agentWith("offline", withKnowledge(domain.KnowledgeTool{Metadata: map[string]string{"team": "sales"}})),
		asksForLadders + " ":               r.agentWith("offline", withKnowledge(domain.KnowledgeTool{DocumentIDs: []string{id.New(id.Document)}})),
	} {
		run := r.result(r.start(agent, id.New(id.Run), message))
		if run.Message == nil || !strings.Contains(*run.Message, "The documents do not say") || len(run.Citations) != 0 {
			t.Errorf("%s: %+v", message, run)
		}
	}
	bound := r.agentWith("offline", withKnowledge(domain.KnowledgeTool{DocumentIDs: []string{doc}, Metadata: map[string]string{"team": "site"}}))
	if run = r.result(r.start(bound, "s", asksForLadders)); len(run.Citations) != 1 {
		t.Errorf("%+v", run)
	}
	if _, err := r.store.Knowledge.DeleteDocument(t.Context(), r.org, doc); err != nil {
		t.Fatal(err)
	}
	run = r.result(r.start(all, "afterwards", asksForLadders))
	if run.Message == nil || !strings.Contains(*run.Message, "The documents do not say") || len(run.Citations) != 0 {
		t.Errorf("deleted: %+v", run)
	}
}

// A tool worker executes searches that an ingress has signed.
func TestIngressesSearch(t *testing.T) {
	t.Parallel()
	r := newTestEnvFor(t, config.Workers{}, workers.RoleTool)
	r.keep("manual.pdf", nil, manual...)
	signer, err := secrets.NewSigner(secretsKey)
	if err != nil {
		t.Fatal(err)
	}
	caller, err := r.bus.NewToolCaller()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(caller.Close)
	deadline := time.Now().Add(20 * time.Second)
	for org, want := range map[string]int{r.org: 1, id.New(id.Organization): 0} {
		body, err := json.Marshal(contract.SearchRequest{Query: "ladders", Limit: 5})
		if err != nil {
			t.Fatal(err)
		}
		claims, err := json.Marshal(contract.SearchClaims{OrganizationID: org, Kind: contract.KindSearch, Expires: deadline.UTC()})
		if err != nil {
			t.Fatal(err)
		}
		var reply contract.SearchReply
		for { // requests fail until the worker is ready
			raw, err := caller.Call(t.Context(), contract.KindSearch, signer.Sign(claims, body), body, deadline)
			if err == nil {
				if err := json.Unmarshal(raw, &reply); err != nil {
					t.Fatal(err)
				}
				break
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
		if reply.Unavailable || len(reply.Found) != want || want == 1 && (*reply.Found[0].Page != 7 || !slices.Equal(reply.Found[0].MatchedBy, []string{"text"})) {
			t.Errorf("%s: %+v", org, reply)
		}
	}
}

// A program can read the original file of a document only if its agent may read the document.
func TestCodeReadsDocuments(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("NOT TESTED: documents of programs: there is no bwrap on this machine (install the package bubblewrap)")
	}
	r := newTestEnvFor(t, config.Workers{Sandbox: config.Sandbox{SandboxKind: config.SandboxBubblewrap}}, workers.RoleAgent, workers.RoleTool)
	doc := r.keep("manual.txt", nil, manual...)
	both := withKnowledge(domain.KnowledgeTool{})
	both.CodeExecution = &domain.CodeTool{Enabled: true}
	bound := withKnowledge(domain.KnowledgeTool{DocumentIDs: []string{id.New(id.Document)}})
	bound.CodeExecution = both.CodeExecution
	program := fmt.Sprintf("files: %s\n```python\nprint(open('manual.txt').read().count('\\n'))\n```", doc)
	for want, tools := range map[string]domain.Tools{
		fmt.Sprint(len(manual) - 1): both, "There is no document": bound, "There is no document \"" + doc + "\"": {CodeExecution: both.CodeExecution},
	} {
		run := r.result(r.start(r.agentWith("offline", tools), id.New(id.Run), program))
		if run.Message == nil || !strings.Contains(*run.Message, want) {
			t.Errorf("want %s: %+v", want, run)
		}
	}
}
