package httpapi

import (
	"encoding/base64"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"parley/shared/domain"
)

// automationPage reads limit and cursor of a list of automations, whose names callers choose.
func automationPage(c *gin.Context) (page, error) {
	found := &problems{}
	p := page{limit: limitOf(c, found)}
	if text, given := single(c, "cursor", found); given {
		last, err := base64.RawURLEncoding.Strict().DecodeString(text)
		p.after = string(last)
		if err != nil || p.after == "" || !utf8.Valid(last) || strings.ContainsRune(p.after, 0) || utf8.RuneCount(last) > automationMax {
			found.add("cursor", codeInvalidValue, "must be the nextCursor of a page of this list")
		}
	}
	return p, found.err()
}

// getAutomations is GET /api/automations: the names under which runs were triggered, each with its newest run.
func (a *api) getAutomations(c *gin.Context) {
	p, err := automationPage(c)
	if err != nil {
		fail(c, err)
		return
	}
	all, err := a.Store.Automations(c.Request.Context(), caller(c).OrganizationID, p.after, p.limit+1)
	if err != nil {
		fail(c, err)
		return
	}
	writeJSON(c, http.StatusOK, listOf(all, p, func(a domain.Automation) string { return a.ID }))
}
