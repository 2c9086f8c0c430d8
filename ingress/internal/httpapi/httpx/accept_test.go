package httpx

import (
	"net/http"
	"testing"
)

// The Accept header is evaluated as RFC 9110 requires.
func TestWantsEvents(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "application/json": false, "text/event-stream": true, "text/event-stream, application/json": true,
		"application/json, text/event-stream;q=0.5": false, "application/json;q=0.4, text/event-stream;q=0.5": true, "text/event-stream;q=0": false,
		"text/event-stream;q=0.0, */*": false, "text/*": true, "text/*;q=0.1, */*;q=0.5": false, "text/html, */*;q=0.8": false, "TEXT/EVENT-STREAM": true,
		"text/event-stream;q=2": false, "text/event-stream;q=x": false, "text/event-stream; charset=utf-8; q=1.000": true, `text/event-stream;x="a,b";q=0.5, application/json;q=0.1`: true,
		"application/json;q=0, */*": true, ",,;": false,
	} {
		header := http.Header{}
		if accept != "" {
			header.Set("Accept", accept)
		}
		if got := WantsEvents(header); got != want {
			t.Errorf("%q wants events: %v", accept, got)
		}
	}
}
