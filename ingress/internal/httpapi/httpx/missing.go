package httpx

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"parley/shared/apierr"
)

// maxShownID is the maximum length of an id in an error message, in bytes. Ids of sessions and
// deliveries come from clients, and may be long.
const maxShownID = 200

// Resources maps the paths whose requests name a resource to the kind of the resource.
var Resources = map[string]string{
	"/api/agents":                 "agent",
	"/api/agents/templates":       "template",
	"/api/auth/accept":            "invitation",
	"/api/auth/invitations":       "invitation",
	"/api/auth/reset":             "reset link",
	"/api/auth/sessions":          "login session",
	"/api/automations":            "automation",
	"/api/budgets":                "budget",
	"/api/files":                  "file",
	"/api/hooks":                  "hook",
	"/api/hooks/deliveries":       "delivery",
	"/api/hooks/receive/:id":      "hook",
	"/api/keys":                   "API key",
	"/api/knowledge":              "document",
	"/api/notifications":          "notification endpoint",
	"/api/notifications/messages": "notification",
	"/api/organizations":          "organization",
	"/api/organizations/members":  "member or invitation",
	"/api/runs":                   "run",
	"/api/sessions":               "session",
	"/api/sources":                "source",
	"/assets/:name":               "file",
	"/files":                      "file",
	AcceptPath:                    "invitation",
	ResetPath:                     "reset link",
	"/v1/containers/:container/files/:id/content": "file",
	"/v1/responses/:id":                           "response",
	"/v1/responses/:id/cancel":                    "response",
}

// nameMissing adds the kind and the id of the requested resource to an error of apierr.Missing. Any
// other error is returned unchanged. The text depends only on the request: it is the same whether
// the resource does not exist or the caller may not read it.
func nameMissing(c *gin.Context, err *apierr.Error) *apierr.Error {
	kind := Resources[c.FullPath()]
	if kind == "" || !err.IsMissing() {
		return err
	}

	named := c.Param("id")
	if ids := Query(c)["id"]; named == "" && len(ids) == 1 {
		named = ids[0]
	}
	if templates := Query(c)["template"]; named == "" && kind == "agent" && len(templates) == 1 {
		kind, named = "template", templates[0]
	}

	text := kind + " not found"
	unprintable := func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }
	if named != "" && len(named) <= maxShownID && !strings.ContainsFunc(named, unprintable) {
		text += ": " + named
	}
	return apierr.Wrap(apierr.NotFound, err.Err, "%s", text)
}
