package ingress_test

import (
	"net/http"
	"testing"
	"time"

	"parley/shared/testkit"
)

// An ingress that starts before NATS creates the job stream as soon as NATS responds, even if there
// is no worker.
func TestTheJobStreamIsCreatedOnceNATSStarts(t *testing.T) {
	t.Parallel()
	server := testkit.NATSProcess(t, "")
	server.Kill9()
	r := newTestEnvOn(t, defaults(), server.URL)
	<-time.After(7 * time.Second) // longer than an attempt to connect
	server.Restart()
	deadline := time.Now().Add(testkit.Within(20 * time.Second))
	for r.call("GET", "/readyz", nil, "").status != http.StatusOK {
		if time.Now().After(deadline) {
			t.Fatal("the ingress is not ready")
		}
		<-time.After(100 * time.Millisecond)
	}
}
