package usage

import (
	"encoding/base64"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
)

// automationPage reads the limit and cursor of a list of automations. The cursor is the name of an
// automation, so it may be any text. automationPage returns one error for the problems of both
// parameters. It does not check that the automation exists, so a cursor stays valid after its
// automation was removed.
func automationPage(c *gin.Context) (httpx.Page, error) {
	found := &httpx.Problems{}
	p := httpx.Page{Limit: httpx.ReadLimit(c, found)}
	if text, present := httpx.QueryValue(c, "cursor", found); present {
		last, err := base64.RawURLEncoding.Strict().DecodeString(text)
		p.After = string(last)
		if err != nil || p.After == "" || !utf8.Valid(last) || strings.ContainsRune(p.After, 0) || utf8.RuneCount(last) > httpx.MaxAutomationID {
			found.Add("cursor", httpx.CodeInvalidValue, "must be the nextCursor of a page of this list")
		}
	}
	return p, found.Err()
}

// getAutomations handles GET /api/automations: it returns the names of the organization's
// automations, each with its most recent run.
func (h *Handler) getAutomations(c *gin.Context) error {
	p, err := automationPage(c)
	if err != nil {
		return err
	}

	// One automation more than the page holds shows whether there is a next page.
	all, err := h.RunsDB.Automations(c.Request.Context(), httpx.Caller(c).OrganizationID, p.After, p.Limit+1)
	if err != nil {
		return err
	}

	return httpx.JSON(c, http.StatusOK, httpx.NewList(all, p, func(a domain.Automation) string { return a.ID }))
}
