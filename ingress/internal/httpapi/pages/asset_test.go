package pages

import (
	"net/http"
	"testing"
)

// A request may have several Accept-Encoding headers.
func TestAcceptsGzip(t *testing.T) {
	t.Parallel()
	header := http.Header{"Accept-Encoding": {"br", "GZIP ; q=1.0"}}
	if !acceptsGzip(header) {
		t.Error("the second line is not read")
	}
}
