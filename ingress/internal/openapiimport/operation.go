package openapiimport

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"parley/shared/domain"
	"parley/shared/truncate"
)

// verbs lists the HTTP methods of a path item, in the order in which their endpoints are returned.
// These are the methods that OpenAPI defines. Some of them are skipped later; see sideEffect.
var verbs = []string{"get", "head", "post", "put", "patch", "delete", "options", "trace"}

// operation is one method of a path. The function operations creates it. It does not change
// afterwards.
type operation struct {
	// Key in the object paths, which begins with a slash.
	path   string
	method string // HTTP method in capital letters
	id     string // operationId in the document; "" if absent
	name   string // name of the endpoint
	// Path item, which has the fields that apply to all methods.
	item map[string]any
	// Operation object; nil if the operation is malformed.
	body   map[string]any
	broken error // error that describes why the operation is malformed; nil: it is well-formed
}

// label returns the text that identifies an operation in messages. The text has at most maxLabel
// characters, none of which is invisible.
func (o operation) label() string {
	if o.id != "" {
		return truncate.Ellipsis(clean(o.id), maxLabel)
	}
	return truncate.Ellipsis(clean(o.method+" "+o.path), maxLabel)
}

// maxLabel is the maximum length of a label, in characters.
const maxLabel = 200

// operations returns all operations of the document. Their names depend on the whole document and
// not on the selection. The operations are sorted by path and, within a path, in the order of the
// list verbs. A path item that cannot be read becomes one broken operation with the method "*".
func (d *document) operations() []operation {
	paths, _ := d.root["paths"].(map[string]any)
	var all []operation

	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if !strings.HasPrefix(path, "/") {
			continue // the key is not a path but the name of an extension
		}

		item, err := d.object(paths[path])
		if err != nil {
			all = append(all, operation{path: path, method: "*", broken: err})
			continue
		}

		for _, verb := range verbs {
			body, found := item[verb]
			if !found {
				continue
			}

			o := operation{path: path, method: strings.ToUpper(verb), item: item}
			// A malformed operation is reported only if it is selected.
			if o.body, found = body.(map[string]any); !found {
				o.broken = skip("The operation is not an object.")
			}
			o.id, _ = o.body["operationId"].(string)
			all = append(all, o)
		}
	}

	// Names are assigned in this order, so the first of several equal names gets no suffix.
	taken := map[string]bool{}
	for i := range all {
		all[i].name = nameFor(all[i], taken)
	}
	return all
}

// unfit matches characters that are not allowed in tool names.
var unfit = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// maxName is the maximum length of a tool name, in characters.
const maxName = 64

// nameFor returns a tool name for an operation. No two operations get the same name. The name
// consists of the operationId or, if there is none, of the method and the path. Underscores replace
// the characters that tool names may not contain. The name has at most maxName characters. nameFor
// adds it to the argument taken.
func nameFor(o operation, taken map[string]bool) string {
	plain := strings.Trim(unfit.ReplaceAllString(o.id, "_"), "_")
	if plain == "" {
		plain = strings.ToLower(o.method) + "_" + strings.Trim(unfit.ReplaceAllString(o.path, "_"), "_")
	}

	// The model must be able to distinguish an endpoint from a built-in tool.
	if slices.Contains(domain.ToolNames, plain) {
		plain = "api_" + plain
	}

	name := plain[:min(len(plain), maxName)]

	// Add a number to a name that is taken, and shorten the name so that the number fits.
	for n := 2; taken[name]; n++ {
		end := fmt.Sprint("_", n)
		name = plain[:min(len(plain), maxName-len(end))] + end
	}

	taken[name] = true
	return name
}

// choose selects operations by name. Each name must match exactly one operation. Otherwise the
// error lists the names that do not. A name is an operationId, or a method and a path. The result
// is in the order of the document, not in that of the names. The error also reports names that
// select the same operation.
func choose(all []operation, named []string) ([]operation, error) {
	if len(named) > maxEndpoints {
		return nil, invalid("operations", CodeTooLong, "must have at most %d entries, not %d", maxEndpoints, len(named))
	}

	var problems []Problem
	chosen := map[int]bool{}
	for i, name := range named {
		field := fmt.Sprintf("operations[%d]", i)

		found := find(all, name)
		switch {
		case len(found) == 0:
			problems = append(problems, Problem{field, CodeInvalid, `is neither an operationId nor a "METHOD /path" in the document`})
		case len(found) > 1:
			problems = append(problems, Problem{field, CodeInvalid, `is the operationId of several operations: name it as "METHOD /path"`})
		case chosen[found[0]]:
			problems = append(problems, Problem{field, CodeDuplicate, "selects an operation a second time"})
		default:
			chosen[found[0]] = true
		}
	}
	if problems != nil {
		return nil, &Invalid{Problems: problems}
	}

	wanted := make([]operation, 0, len(chosen))
	for _, i := range slices.Sorted(maps.Keys(chosen)) {
		wanted = append(wanted, all[i])
	}
	return wanted, nil
}

// find returns the indexes of the operations with a name. A name of the form "METHOD /path" matches
// at most one operation. Case and extra spaces of the method are ignored. An operationId must match
// exactly. The result is empty if no operation has the name.
func find(all []operation, name string) []int {
	var found []int
	method, path, _ := strings.Cut(strings.TrimSpace(name), " ")
	method, path = strings.ToUpper(method), strings.TrimSpace(path)

	for i, o := range all {
		if o.method == method && o.path == path {
			return []int{i}
		}
		if o.id != "" && o.id == name {
			found = append(found, i)
		}
	}
	return found
}

// sideEffect returns the kind of side effect that HTTP defines for a method. An unknown method
// cannot be the method of an endpoint. The caller can change the side effect afterwards.
func sideEffect(method string) (effect string, known bool) {
	switch method {
	case http.MethodGet, http.MethodHead:
		return "none", true
	case http.MethodPut, http.MethodDelete:
		return "idempotent", true
	case http.MethodPost, http.MethodPatch:
		return "unsafe", true
	default:
		return "", false
	}
}
