package clients

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	yaml "github.com/oasdiff/yaml3"

	"parley/shared/testkit"
)

// TestPostman runs the Postman collection with newman, request by request. The OpenAPI document
// must contain the status of each response, no response may be a server error, and the main
// requests must succeed.
func TestPostman(t *testing.T) {
	t.Parallel()
	needsNode(t)
	s := withTestEnv(t)
	root := testkit.Root(t)
	var output struct {
		Answers []struct {
			Folder, Name, Method, Path, Target, Error, Body string
			Status, Ms                                      int
		}
		Failures []string
	}

	collection := filepath.Join(s.dir, "collection.json")
	writeCollection(t, s, filepath.Join(root, "docs", "parley.postman_collection.json"), collection)
	decode(t, []byte(s.node(t, "newman.mjs", "COLLECTION="+collection)), &output)
	if len(output.Failures) > 0 {
		t.Errorf("newman reports failures: %s", strings.Join(output.Failures, "\n"))
	}

	documented := documentedStatuses(t, root)
	succeeded := map[string]bool{}
	for _, answer := range output.Answers {
		is := answer.Method + " " + answer.Target
		if answer.Error != "" || answer.Status >= http.StatusInternalServerError && answer.Path != "/readyz" {
			t.Errorf("%s / %s: %s: %d %s %s", answer.Folder, answer.Name, is, answer.Status, answer.Error, answer.Body)
			continue
		}
		if !slices.Contains(documented.of(answer.Method, answer.Path), answer.Status) {
			t.Errorf("%s / %s: %s returned %d, which the OpenAPI document does not list: %s", answer.Folder, answer.Name, is, answer.Status, answer.Body)
		}
		if answer.Status < http.StatusMultipleChoices {
			succeeded[answer.Folder+" / "+answer.Name] = true
		} else {
			t.Logf("%s / %s: %s: %d in %d ms %s", answer.Folder, answer.Name, is, answer.Status, answer.Ms, answer.Body)
		}
	}

	for _, name := range mainRequests {
		if !succeeded[name] {
			t.Errorf("%s did not succeed", name)
		}
	}

	t.Logf("%d of %d requests succeeded: %s", len(succeeded), len(output.Answers), strings.Join(slices.Sorted(maps.Keys(succeeded)), ", "))
}

// mainRequests contains the names of the requests that must succeed in a new service that has one
// agent. The other requests need values that the test does not have, such as an invitation's token,
// or data that no request of the collection creates, such as a file.
var mainRequests = []string{
	"Chat / Chat with an agent", "Chat / Stream the answer", "Chat / Demo mode", "Automation / From a scheduler", "Automation / Without waiting",
	"Runs / Wait for a run", "Runs / Stream a run", "Knowledge / Add a text", "Knowledge / Search", "Sessions / Get one", "Sessions / Erase",
	"Agents / Create an agent", "Agents / One agent", "Agents / Let schedulers run it", "Agents / Delete", "Templates / List", "Keys / Create",
	"Keys / Rotate", "Keys / Revoke", "Accounts / Sign up", "Accounts / Who am I", "Operations / Alive",
	"OpenAI / Complete a chat", "OpenAI / Stream a completion", "OpenAI / Ask for a response", "OpenAI / One response", "OpenAI / List models",
	"MCP / List agents as tools", "MCP / Call an agent as a tool", "Chat / Stream as AI SDK messages", "Chat / Stream as AG-UI events",
}

// writeCollection sets the agent and the organization in the collection, as a user does after
// importing it.
func writeCollection(t *testing.T, s *testEnv, from, to string) {
	t.Helper()
	raw, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}

	var collection map[string]any
	decode(t, raw, &collection)
	set := map[string]string{"agentId": s.agent(t, nil), "organizationId": s.parley.OrganizationID}
	for _, v := range collection["variable"].([]any) {
		variable := v.(map[string]any)
		if value, ok := set[variable["key"].(string)]; ok {
			variable["value"] = value
		}
	}

	if err := os.WriteFile(to, encoded(t, collection), 0o600); err != nil {
		t.Fatal(err)
	}
}

// statuses contains the documented responses of operations, by path and lower-case method.
type statuses map[string]map[string]any

func documentedStatuses(t *testing.T, root string) statuses {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "ingress", "internal", "openapi", "openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var document struct{ Paths statuses }
	if err := yaml.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}
	return document.Paths
}

// of returns the documented status codes of the operation with the given method and path, or nil if
// the document has no such operation.
func (s statuses) of(method, path string) []int {
	for pattern, operations := range s {
		if !fits(pattern, path) {
			continue
		}
		operation, ok := operations[strings.ToLower(method)].(map[string]any)
		if !ok {
			continue
		}
		responses, _ := operation["responses"].(map[string]any)
		var out []int
		for status := range responses {
			if code, err := strconv.Atoi(status); err == nil {
				out = append(out, code)
			}
		}
		return out
	}
	return nil
}

// fits reports whether a path matches a pattern such as /v1/models/{id}.
func fits(pattern, path string) bool {
	wanted, given := strings.Split(pattern, "/"), strings.Split(path, "/")
	return len(wanted) == len(given) && !slices.ContainsFunc(wanted, func(part string) bool {
		i := slices.Index(wanted, part)
		return part != given[i] && !strings.HasPrefix(part, "{")
	})
}
