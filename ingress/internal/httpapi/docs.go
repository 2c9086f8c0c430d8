package httpapi

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
	"sync"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/openapi"
	"parley/ingress/web"
)

// The types of what is served beside JSON.
const (
	contentHTML = "text/html; charset=utf-8"
	contentText = "text/plain; charset=utf-8"
)

// document serves what stays the same for as long as the process lives. It is made when somebody first asks for it.
func document(contentType string, read func() ([]byte, error)) gin.HandlerFunc {
	type content struct {
		body []byte
		etag string
	}
	once := sync.OnceValues(func() (content, error) {
		body, err := read()
		sum := sha256.Sum256(body)
		return content{body, `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`}, err
	})
	return func(c *gin.Context) {
		made, err := once()
		if err != nil {
			fail(c, err)
			return
		}
		header := c.Writer.Header()
		header.Set("ETag", made.etag)
		header.Set("Cache-Control", "no-cache") // keep it, and ask whether it is still the one
		header.Set("Content-Security-Policy", web.DocsSecurityPolicy)
		if matches(c.Request.Header.Values("If-None-Match"), made.etag) {
			c.Status(http.StatusNotModified)
			return
		}
		c.Data(http.StatusOK, contentType, made.body)
	}
}

// matches reports whether a list of entity tags names this one; weak ones count, as RFC 9110 says.
func matches(lists []string, etag string) bool {
	for tag := range strings.SplitSeq(strings.Join(lists, ","), ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		if tag == etag || tag == "*" {
			return true
		}
	}
	return false
}

func openAPIDocument() ([]byte, error) { return openapi.Document(), nil }

func (a *api) docsPage() ([]byte, error) {
	return web.RenderDocs(web.Docs{Reference: openapi.Read(), BaseURL: a.PublicURL})
}

func errorsPage() ([]byte, error) {
	return web.RenderErrors(web.Errors{
		Title: openapi.Title(), Version: openapi.Version(), Example: openapi.ExampleOf("InvalidRequest"),
		Codes: openapi.ErrorCodes(), Fields: openapi.Words("FieldErrorCode"), Runs: openapi.Words("RunErrorCode"),
	})
}

func (a *api) llmsText() ([]byte, error) {
	ref := openapi.Read()
	return web.RenderLLMs(web.LLMs{Docs: web.Docs{Reference: ref, BaseURL: a.PublicURL}, Samples: ref.Featured()})
}
