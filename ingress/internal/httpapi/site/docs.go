package site

import (
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/guides"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/pages"
	"parley/ingress/internal/openapi"
	"parley/ingress/web"
	"parley/shared/apierr"
)

// Media types of the documents other than JSON.
const (
	contentHTML = "text/html; charset=utf-8"
	contentText = "text/plain; charset=utf-8"
)

// document returns the handler for a document that does not change while the process runs. It is
// rendered once, at the first request, and served compressed. read returns the document.
func document(contentType string, read func() ([]byte, error)) gin.HandlerFunc {
	return rendered(contentType, read, showDocument)
}

// favicon returns the handler for the service's icon. Every page loads the icon, so its response
// has a shorter Content-Security-Policy than a document and no Permissions-Policy. Browsers may
// keep the icon, but must revalidate it.
func favicon() gin.HandlerFunc {
	return rendered("image/svg+xml", web.Favicon, func(c *gin.Context, made web.Asset) {
		c.Writer.Header().Set("Content-Security-Policy", web.FaviconSecurityPolicy)
		pages.Serve(c, made, "no-cache")
	})
}

// rendered returns a handler that renders a body at the first request, and responds to every
// request with show. An error of read is kept as well: it is a fault of the release, and would
// occur again.
func rendered(contentType string, read func() ([]byte, error), show func(*gin.Context, web.Asset)) gin.HandlerFunc {
	once := sync.OnceValues(func() (web.Asset, error) {
		body, err := read()
		if err != nil {
			return web.Asset{}, err
		}
		return web.NewAsset(contentType, body)
	})
	return func(c *gin.Context) {
		made, err := once()
		if err != nil {
			httpx.Fail(c, err)
			return
		}

		show(c, made)
	}
}

// showDocument responds with a document. Browsers may keep it, but must revalidate it.
func showDocument(c *gin.Context, made web.Asset) {
	c.Writer.Header().Set("Content-Security-Policy", web.DocsSecurityPolicy)
	c.Writer.Header().Set("Permissions-Policy", pages.NoMicrophone)
	pages.Serve(c, made, "no-cache") // clients may keep the document but must revalidate it each time
}

// openAPIDocument returns the OpenAPI document as JSON.
func openAPIDocument() ([]byte, error) { return openapi.Document(), nil }

// docsPage renders the API reference with the service's public address in its examples. It is
// rendered once.
func (h *Handler) docsPage() ([]byte, error) {
	return web.RenderDocs(web.Docs{Reference: openapi.Read(), BaseURL: h.PublicURL})
}

// schemasPage renders the schemas of the API reference. They are on a separate page.
func schemasPage() ([]byte, error) {
	return web.RenderSchemas(web.Docs{Reference: openapi.Read()})
}

// renderGuides returns the rendered pages of the documentation by path; "" is the list of pages.
// Rendering takes noticeable processor time, so the result is kept in h.guides.
func (h *Handler) renderGuides() (map[string]web.Asset, error) {
	guide, err := guides.Read()
	if err != nil {
		return nil, err
	}
	assets := map[string]web.Asset{}
	if assets[""], err = renderGuide(web.Guides{Chapters: guide.Chapters}); err != nil {
		return nil, err
	}

	for _, chapter := range guide.Chapters {
		for _, page := range chapter.Pages {
			if assets[page.Path], err = renderGuide(web.Guides{Chapters: guide.Chapters, Page: page, BaseURL: h.PublicURL}); err != nil {
				return nil, err
			}
		}
	}
	return assets, nil
}

// renderGuide renders a page of the documentation. The version of the release is part of the page.
func renderGuide(data web.Guides) (web.Asset, error) {
	data.Title, data.Version = openapi.Title(), openapi.Version()
	body, err := web.RenderGuides(data)
	if err != nil {
		return web.Asset{}, err
	}
	return web.NewAsset(contentHTML, body)
}

// guidesPage handles GET /docs: it responds with the list of pages, or with the results of a
// search. The results of a search are rendered for each request, because queries differ. If the
// query is too long, the error is an invalid request with the field q.
func (h *Handler) guidesPage(c *gin.Context) {
	query := strings.TrimSpace(httpx.StateFor(c).Query.Get("q"))
	if query == "" {
		h.showGuide(c, "")
		return
	}
	if utf8.RuneCountInString(query) > guides.MaxQuery {
		httpx.Fail(c, apierr.Invalid("q", httpx.CodeTooLong, "must have at most %d characters", guides.MaxQuery))
		return
	}

	guide, err := guides.Read()
	if err != nil {
		httpx.Fail(c, err)
		return
	}

	made, err := renderGuide(web.Guides{Chapters: guide.Chapters, Query: query, Results: guide.Search(query)})
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	showDocument(c, made)
}

// guidePage returns a handler that shows a page of the documentation. The page's path is prefix
// followed by the parameter in the request's path.
func (h *Handler) guidePage(prefix string) gin.HandlerFunc {
	return func(c *gin.Context) { h.showGuide(c, prefix+c.Param("page")) }
}

// showGuide responds with the page of the documentation at a path. at is the path without /docs/,
// and "" for the list of pages. All pages are rendered at the first request for any of them.
func (h *Handler) showGuide(c *gin.Context, at string) {
	assets, err := h.guides()
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	made, ok := assets[at]
	if !ok {
		pages.NotFound(c)
		return
	}
	showDocument(c, made)
}

// errorsPage renders the list of error codes. The type in each error response is a link to it. The
// texts come from the OpenAPI document, so the list is complete.
func errorsPage() ([]byte, error) {
	return web.RenderErrors(web.Errors{
		Title: openapi.Title(), Version: openapi.Version(), Example: openapi.ExampleFor("InvalidRequest"),
		Codes: openapi.ErrorCodes(), Fields: openapi.Words("FieldErrorCode"), Runs: openapi.Words("RunErrorCode"),
	})
}

// llmsText renders the API reference as plain text for language models. It contains the same
// operations as the pages of the reference.
func (h *Handler) llmsText() ([]byte, error) {
	ref := openapi.Read()
	return web.RenderLLMs(web.LLMs{Docs: web.Docs{Reference: ref, BaseURL: h.PublicURL}, Samples: ref.Featured()})
}
