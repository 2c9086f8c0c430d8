package httpx

import (
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"parley/shared/apierr"
	"parley/shared/truncate"
)

// Repeatable lists the parameters that may occur more than once in a query.
var Repeatable = Params{"documentId", "metadata"}

// IsText reports whether a value is UTF-8 without U+0000. PostgreSQL accepts no other text.
func IsText(value string) bool { return utf8.ValidString(value) && !strings.ContainsRune(value, 0) }

// ReadQuery parses a query. It returns an error for names and values that are not text (see
// IsText), so that handlers need not check them. The result is nil for an empty query.
func ReadQuery(raw string) (values url.Values, err error) {
	if raw == "" {
		return values, nil
	}

	values, err = url.ParseQuery(raw)
	if err != nil {
		return values, apierr.Invalid("query", CodeInvalidValue, "the query is malformed")
	}

	for name, list := range values {
		for _, value := range list {
			if !IsText(value) || !IsText(name) {
				return values, apierr.Invalid(strings.ToValidUTF8(name, "\uFFFD"), CodeInvalidValue, "must be UTF-8 without U+0000")
			}
		}
	}

	return values, nil
}

// CheckQuery returns an error if the query has parameters that the route does not have, or
// parameters that are repeated or empty. If the route requires an id, a missing id is an error,
// too. The error lists all problems. Their codes are unknown_field, duplicate, invalid_value,
// conflict and required.
func (r *Route) CheckQuery(c *gin.Context) error { //nolint:cyclop // a list of cases
	if r.Open {
		return nil
	}

	if r.Action == "" {
		if err := r.MethodError(Query(c)["action"]); err != nil {
			return err
		}
	}

	found := &Problems{}
	_, named := Query(c)["id"]
	named = named && r.Find != nil
	for _, name := range sortedNames(Query(c)) {
		switch values := Query(c)[name]; {
		case name == "action" && r.Action != "" || name == "id" && r.Find != nil || slices.Contains(r.Among(named), name):
			if len(values) > 1 && !slices.Contains(Repeatable, name) {
				found.Add(name, CodeDuplicate, "must be given only once")
			}
			if slices.Contains(values, "") {
				found.Add(name, CodeInvalidValue, "must not be empty")
			}
		case slices.Contains(r.Among(!named), name) && named:
			found.Add(name, CodeConflict, "cannot be combined with id")
		case slices.Contains(r.Among(!named), name):
			found.Add("id", CodeRequired, "is required with %s", name)
		case len(r.Actions[name]) > 0: // only the action is missing
			found.Add("action", CodeRequired, "is required with %s and must be %s", name, OneName(r.Actions[name]))
		default:
			found.Add(truncate.Ellipsis(name, maxName), CodeUnknown, "is not a parameter of this operation")
		}
	}

	if r.Find != nil && r.List == nil && !named {
		found.Add("id", CodeRequired, "is required in the query")
	}
	return found.Err()
}

// Among returns the parameters that a query may contain. If the argument named is true, the query
// also contains an id, which is not part of the result.
func (r *Route) Among(named bool) Params {
	if named {
		return r.Beside
	}
	return r.List
}

// sortedNames returns the names in alphabetical order, so that the same request always gets the
// same response.
func sortedNames(values url.Values) []string {
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// maxName is the maximum number of characters of an unknown name that an error repeats.
const maxName = 64
