package httpapi

import (
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"parley/shared/apierr"
)

// repeatable are the parameters that a query may have more than once.
var repeatable = params{"documentId", "metadata"}

// isText reports whether a value is UTF-8 without U+0000, which is all that the database takes.
func isText(value string) bool { return utf8.ValidString(value) && !strings.ContainsRune(value, 0) }

// readQuery reads a query and refuses what is not text, so that no handler has to.
func readQuery(raw string) (values url.Values, err error) {
	if raw == "" {
		return values, nil
	}
	values, err = url.ParseQuery(raw)
	if err != nil {
		return values, apierr.Invalid("query", codeInvalidValue, "the query is malformed")
	}
	for name, list := range values {
		for _, value := range list {
			if !isText(value) || !isText(name) {
				return values, apierr.Invalid(strings.ToValidUTF8(name, "\uFFFD"), codeInvalidValue, "must be UTF-8 without U+0000")
			}
		}
	}
	return values, nil
}

// checkQuery refuses parameters that the route does not have, that come twice, and that are empty. All of them are reported.
func (r *route) checkQuery(c *gin.Context) error { //nolint:cyclop // a list of cases
	if r.open {
		return nil
	}
	found := &problems{}
	_, named := query(c)["id"]
	named = named && r.find != nil
	for _, name := range sortedNames(query(c)) {
		switch values := query(c)[name]; {
		case name == "action" && r.action != "" || name == "id" && r.find != nil || slices.Contains(r.among(named), name):
			if len(values) > 1 && !slices.Contains(repeatable, name) {
				found.add(name, codeDuplicate, "may be given once")
			}
			if slices.Contains(values, "") {
				found.add(name, codeInvalidValue, "must not be empty")
			}
		case slices.Contains(r.among(!named), name) && named:
			found.add(name, codeConflict, "cannot come with id")
		case slices.Contains(r.among(!named), name):
			found.add("id", codeRequired, "a query with %s must name one thing by id", name)
		case r.other != "" && (name == "id" || name == "template"): // the action was forgotten
			found.add("action", codeRequired, "a query with %s needs an action, such as %s", name, r.other)
		default:
			found.add(truncateName(name), codeUnknown, "is not a parameter of this operation")
		}
	}
	if r.find != nil && r.list == nil && !named {
		found.add("id", codeRequired, "the query must name the id")
	}
	return found.err()
}

// among gives the parameters that may come with an id, or without.
func (r *route) among(named bool) params {
	if named {
		return r.beside
	}
	return r.list
}

func sortedNames(values url.Values) []string {
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// truncateName shortens a name that a caller made up.
func truncateName(name string) string {
	const most = 64
	if len(name) > most {
		return strings.ToValidUTF8(name[:most], "") + "…"
	}
	return name
}
