package floor

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestParkedKeepsRequestsUntilTheyAreReleased(t *testing.T) {
	t.Parallel()
	server := newParked().routes()
	send := func(ctx context.Context, path, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		server.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body)))
		return w
	}
	if w := send(t.Context(), Path, `{}`); w.Code != http.StatusBadRequest {
		t.Errorf("a request without a message: %d", w.Code)
	}

	const request = `{"target":"ag_1","input":{"message":"hello"}}`
	for range 2 { // also after a release
		left, leave := context.WithCancel(t.Context())
		leave()
		if w := send(left, Path, request); w.Body.Len() > 0 {
			t.Errorf("a request was answered before its release: %s", w.Body)
		}
		answered := make(chan string, 1)
		go func() { answered <- send(t.Context(), Path, request).Body.String() }()
		for waits := true; waits; { // the request may not have arrived yet
			if w := send(t.Context(), ReleasePath, ""); w.Code != http.StatusOK {
				t.Fatalf("releasing: %d", w.Code)
			}
			select {
			case body := <-answered:
				if body != `{"message":"hello"}` {
					t.Errorf("answer is %s", body)
				}
				waits = false
			default:
			}
		}
	}
}
