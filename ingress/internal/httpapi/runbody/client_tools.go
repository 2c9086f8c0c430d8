package runbody

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
	"parley/shared/schema"
)

// maxToolDescription is the maximum length of a client tool's description, in characters.
// Descriptions are part of each request to the model.
const maxToolDescription = 4096

// toolName matches the names of tools that model providers accept.
var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// reservedNames are names that a client tool must not have: the keywords of the tool choice, where
// a tool's name may also stand, and the name of an internal tool.
var reservedNames = []string{domain.ChoiceAuto, domain.ChoiceNone, domain.ChoiceRequired, domain.AnswerTool}

// noArguments is the schema of a tool without an input schema. Calls of such a tool have an empty
// object as arguments.
var noArguments = json.RawMessage(`{"type":"object","properties":{}}`)

// ClientToolBody describes a tool that the client of a run executes itself. A run that calls it
// waits until the client has sent the result.
type ClientToolBody struct {
	// Name with which the model calls the tool.
	Name string `json:"name" required:"true"`
	// Text for the model.
	Description httpx.Optional[string] `json:"description"`
	// JSON Schema of the arguments; missing: none.
	InputSchema httpx.Optional[json.RawMessage] `json:"inputSchema"`
}

// clientTools checks the tools of a request and returns them, or nil if there are none. Problems
// are added to found.
func clientTools(found *httpx.Problems, bodies []ClientToolBody) *domain.ClientTools {
	if len(bodies) == 0 {
		return nil
	}
	tools := &domain.ClientTools{Tools: make([]domain.ClientTool, len(bodies))}
	for i, b := range bodies {
		tools.Tools[i] = domain.ClientTool{Name: b.Name, Description: b.Description.Value, InputSchema: b.InputSchema.Value}
	}
	CheckClientTools(found, tools, "", "inputSchema")
	return tools
}

// CheckClientTools checks the tools of a request, and sets an empty schema in each tool that has
// none. In a problem, the path of a field consists of tools[i], the text in the argument within,
// and the name of the field. The argument parameters is the name of the field that contains the
// schema. Problems that the decoder has found before are not reported twice.
func CheckClientTools(found *httpx.Problems, tools *domain.ClientTools, within, parameters string) {
	if tools == nil {
		return
	}
	if len(tools.Tools) > domain.MaxClientTools {
		found.Count("tools", len(tools.Tools), domain.MaxClientTools)
		return
	}

	names := map[string]bool{}
	for i := range tools.Tools {
		t, tool := &tools.Tools[i], "tools["+strconv.Itoa(i)+"]"
		if found.Has(tool + ".type") {
			continue // other types of tools are not checked here
		}
		at := tool + within + "."
		switch {
		case found.Has(at + "name"):
		case !toolName.MatchString(t.Name):
			found.Add(at+"name", httpx.CodeInvalidValue, "must be 1 to 64 characters of a-z, A-Z, 0-9, _ and -")
		case slices.Contains(reservedNames, t.Name):
			found.Add(at+"name", httpx.CodeInvalidValue, "is reserved: choose another name")
		case names[t.Name]:
			found.Add(at+"name", httpx.CodeDuplicate, "is the name of another tool of the request")
		}

		// Remember the name even if it is invalid, so that the next tool with this name is
		// reported.
		names[t.Name] = true
		found.Prose(at+"description", t.Description, maxToolDescription)
		if len(t.InputSchema) == 0 || string(t.InputSchema) == "null" {
			t.InputSchema = noArguments
		}
		checkToolSchema(found, at+parameters, t.InputSchema)
	}
}

// checkToolSchema checks the JSON Schema of a tool's arguments, which must describe an object. A
// schema that cannot be compiled could not validate the arguments of calls.
func checkToolSchema(found *httpx.Problems, field string, raw json.RawMessage) {
	var root struct {
		Type json.RawMessage `json:"type"`
	}
	if _, err := schema.Compile(raw); err != nil {
		found.Add(field, httpx.CodeInvalidValue, "is not a usable JSON Schema: %s", strings.TrimPrefix(err.Error(), "reading schema: "))
	} else if json.Unmarshal(raw, &root) == nil && len(root.Type) > 0 && string(root.Type) != `"object"` {
		found.Add(field, httpx.CodeInvalidValue, "must have the type object")
	}
}
