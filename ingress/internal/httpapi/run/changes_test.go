package run

import (
	"context"
	"io"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
)

// tickingSource reports changes of runs at regular intervals. With every third report, it also
// reports a change of documents.
type tickingSource struct {
	every time.Duration
	left  int
}

func (k *tickingSource) Next(_ context.Context, until time.Time) ([]domain.ChangeKind, error) {
	if k.left == 0 {
		return nil, io.EOF
	}
	<-time.After(min(k.every, time.Until(until)))
	if !time.Now().Before(until) {
		return nil, nil
	}
	k.left--
	if k.left%3 == 0 {
		return []domain.ChangeKind{domain.ChangedRuns, domain.ChangedDocuments}, nil
	}
	return []domain.ChangeKind{domain.ChangedRuns}, nil
}

func TestChangesAreWrittenWithoutIDs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		c, _ := gin.CreateTestContext(w)
		c.Request = httptest.NewRequestWithContext(t.Context(), "GET", "/api/events", nil)
		httpx.SendStream(c, &tickingSource{every: 4 * time.Second, left: 4}, appendChange, &httpx.SessionCheck{})
		const runs, documents, ping = "event: runs\ndata: {}\n\n", "event: documents\ndata: {}\n\n", ": ping\n\n"
		if got, want := w.Body.String(), runs+documents+runs+ping+runs+runs+documents; got != want {
			t.Errorf("wrote\n%s\nwant\n%s", got, want)
		}
	})
}
