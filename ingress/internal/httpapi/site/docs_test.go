package site

import (
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"parley/shared/apierr"
)

// TestDocumentsThatFail serves a document that cannot be rendered. The response has status 500 and
// no ETag.
func TestDocumentsThatFail(t *testing.T) {
	t.Parallel()
	engine := gin.New()
	engine.GET("/broken", document(contentText, func() ([]byte, error) { return nil, apierr.New(apierr.Internal, "x") }))
	rec := httptest.NewRecorder()
	engine.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), "GET", "/broken", nil))
	if rec.Code != 500 || rec.Header().Get("ETag") != "" {
		t.Errorf("%d %v", rec.Code, rec.Header())
	}
}
