package workers_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"parley/shared/config"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/knowledgedb"
	"parley/shared/testkit/running"
	"parley/workers"
)

// Documents that the worker fetches count toward the organization's quota, which the worker's
// settings define.
func TestFetchedDocumentsCountTowardsTheQuota(t *testing.T) {
	t.Parallel()
	r := newTestEnvFor(t, config.Workers{}, workers.RoleSweep)
	book := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("more than it may be")) }))
	t.Cleanup(book.Close)
	w, err := workers.New(workers.Config{
		Secrets: config.Secrets{SecretsKey: secretsKey}, Documents: config.Documents{DocumentBytesPerOrganization: 5},
		Workers: config.Workers{Outbound: config.Outbound{OutboundAllow: []string{strings.TrimPrefix(book.URL, "http://")}}}, Roles: []workers.Role{workers.RoleIngest},
	}, workers.Deps{Store: r.store, Bus: r.bus, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	running.Start(t, w.Run)
	sent, err := r.store.Knowledge.AddDocuments(t.Context(), r.org, []knowledgedb.NewDocument{{ID: id.New(id.Document), Name: "x", URL: book.URL, CreatedBy: "usr_a"}}, knowledgedb.DocumentLimits{})
	if err != nil {
		t.Fatal(err)
	}
	r.bus.PublishJobs(*sent[0].Job)
	if d := r.processed(sent[0].Document.ID); d.Status != domain.DocumentFailed || d.Error.Code != "quota_exceeded" {
		t.Errorf("%+v, %+v", d, d.Error)
	}
}
