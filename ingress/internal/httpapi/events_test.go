package httpapi

import (
	"testing"

	"parley/ingress/internal/httpapi/httpx"
)

func TestAStreamOfChangesBeginsWithReady(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t) // the event streams of this environment end instead of waiting for further events
	ada := a.signUp("ada@example.com")
	got := a.do("GET", "/api/events", "", ada.auth).want(t, "a stream", 200, "")
	if string(got.body) != "event: ready\ndata: {}\n\n" || got.header.Get("Content-Type") != httpx.ContentEvents || got.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v %q", got.header, got.body)
	}
	a.do("GET", "/api/events", "").want(t, "nobody's stream", 401, "unauthenticated")
}
