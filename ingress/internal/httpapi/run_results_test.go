package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/run"
	"parley/shared/apierr"
	"parley/shared/store/rundb"
)

// If a run is erased or expires between its look-up and the reading of its large result, the error
// says which of the two has happened.
func TestLargeResultsThatAreGone(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("red")
	runID := a.newChat(h, a.newAgent(h), "s", h.owner.auth, h.header)
	a.finish(strings.Repeat("x", rundb.ShortBytes), runID)
	found, err := a.store.Runs.ShortRun(t.Context(), h.org, "", runID)
	must(t, err)
	if found.Deferred == 0 {
		t.Fatal("the result is not large")
	}
	handler := run.New(run.Deps{RunsDB: a.store.Runs})
	read := func() error {
		c, _ := gin.CreateTestContext(httptest.NewRecorder())
		c.Request = httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody)
		stored := found
		err := handler.ReadAccepted(c, &stored)
		if body, _ := stored.Result(); err == nil && len(body) < rundb.ShortBytes {
			t.Errorf("the whole result has %d bytes", len(body))
		}
		return err
	}

	must(t, read())
	a.exec(`UPDATE runs SET result = NULL WHERE id = $1`, runID)
	if err := read(); apierr.CodeFor(err) != apierr.Erased {
		t.Errorf("erased run: %v", err)
	}
	a.exec(`DELETE FROM runs WHERE id = $1`, runID)
	if err := read(); apierr.CodeFor(err) != apierr.Unavailable {
		t.Errorf("expired run: %v", err)
	}
}
