package lifecycle_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"parley/shared/lifecycle"
)

func TestProbe(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	if err := lifecycle.Probe(t.Context(), server.URL+"/readyz"); err != nil {
		t.Error(err)
	}
	status = http.StatusServiceUnavailable
	if lifecycle.Probe(t.Context(), server.URL+"/readyz") == nil {
		t.Error("503 was taken for ready")
	}
	server.Close()
	if lifecycle.Probe(t.Context(), server.URL+"/readyz") == nil {
		t.Error("a missing server was taken for ready")
	}
}
