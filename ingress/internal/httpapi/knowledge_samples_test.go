package httpapi

import (
	"encoding/json"
	"slices"
	"testing"

	"parley/shared/store/knowledgedb"
	"parley/shared/templates"
)

// samplesShown is the decoded list of sample documents.
type samplesShown struct {
	Data []struct {
		Name       string  `json:"name"`
		Bytes      int     `json:"bytes"`
		DocumentID *string `json:"documentId"`
		Status     *string `json:"status"`
	} `json:"data"`
}

// ids returns the ids of the organization's sample documents.
func (s *samplesShown) ids() (ids []string) {
	for _, sample := range s.Data {
		if sample.DocumentID != nil {
			ids = append(ids, *sample.DocumentID)
		}
	}
	return ids
}

func (a *runEnv) samples(headers ...string) (got samplesShown) {
	a.t.Helper()
	must(a.t, json.Unmarshal(a.ok("GET", "/api/knowledge/samples", "", headers...).body, &got))
	if all := templates.Samples(); len(got.Data) != len(all) || got.Data[0].Name != all[0].Name || got.Data[0].Bytes != len(all[0].Content) {
		a.t.Errorf("samples %+v", got)
	}
	return got
}

// Sample documents are added once, to the organization of the caller. Their jobs are published.
// A deleted sample can be added again.
func TestSampleDocuments(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	other := a.newTestOrg("other")
	if got := a.samples(h.member.auth, h.header); len(got.ids()) != 0 {
		t.Errorf("a new organization has %+v", got)
	}

	added := a.ok("POST", "/api/knowledge/samples", "", h.admin.auth, h.header)
	first := a.samples(h.key)
	ids := first.ids()
	if len(ids) != len(first.Data) || *first.Data[0].Status != "queued" || added.text(t, "data.0.id") != ids[0] ||
		added.text(t, "data.0.metadata.example") != "true" || added.text(t, "data.0.mimeType") != "text/markdown" || a.notifyRecorder.jobsFor(ids[0]) != 1 {
		t.Errorf("added %s, then %+v", added.body, first)
	}

	a.exec(`UPDATE documents SET status = 'ready' WHERE org_id = $1`, h.org)
	a.ok("POST", "/api/knowledge/samples", "", h.key)
	if got := a.samples(h.key); !slices.Equal(got.ids(), ids) || *got.Data[0].Status != "ready" || a.documents(h.org) != len(ids) || a.notifyRecorder.jobsFor(ids[0]) != 1 {
		t.Errorf("after a repetition: %+v", got)
	}
	a.ok("DELETE", "/api/knowledge?id="+ids[0], "", h.key)
	if got := a.samples(h.key); got.Data[0].DocumentID != nil || got.Data[0].Status != nil || len(got.ids()) != len(ids)-1 {
		t.Errorf("after a deletion: %+v", got)
	}
	a.ok("POST", "/api/knowledge/samples", "", h.key)
	if got := a.samples(h.key); len(got.ids()) != len(ids) || got.ids()[0] == ids[0] {
		t.Errorf("added again: %+v", got)
	}

	if got := a.samples(other.key); len(got.ids()) != 0 || a.documents(other.org) != 0 {
		t.Errorf("another organization has %+v", got)
	}
}

// Members cannot add sample documents. If the samples exceed the quota, none of them is stored.
func TestSampleDocumentsRefused(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	a.from("POST", "/api/knowledge/samples", "", h.member.auth, h.header).want(t, "a member", 403, "permission_denied")
	a.from("POST", "/api/knowledge/samples", `{"names":[]}`, h.key).want(t, "a body", 400, "invalid_request names:unknown_field")
	a.rebuild(func(d *Deps) { d.Documents = knowledgedb.DocumentLimits{Documents: len(templates.Samples()) - 1} })
	a.from("POST", "/api/knowledge/samples", "", h.key).want(t, "too many", 429, "budget_exceeded")
	if a.documents(h.org) != 0 || a.contents(h.org) != 0 {
		t.Errorf("%d documents and %d contents stay", a.documents(h.org), a.contents(h.org))
	}
}
