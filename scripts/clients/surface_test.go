package clients

import (
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"parley/scripts/internal/faultproxy"
	"parley/scripts/internal/surface"
	parley "parley/sdk/go"
	"parley/shared/testkit"
	"parley/shared/yamldoc"
)

// sent is the request that a client must send for an operation of the OpenAPI document.
type sent struct{ method, path, action string }

// documentOperations returns the names of the operations in the OpenAPI document, in the document's
// order, and the request for each name. An operation with actions has one name for each action.
func documentOperations(t *testing.T) (names []string, operations map[string]sent) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(testkit.Root(t), "ingress", "internal", "openapi", "openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := yamldoc.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}

	operations = map[string]sent{}
	for path, item := range doc.At("paths").Members() {
		for method, operation := range item.Members() {
			id := operation.Text("operationId")
			if id == "" {
				continue
			}
			for _, action := range actions(operation) {
				name := strings.TrimSpace(id + " " + action)
				names = append(names, name)
				operations[name] = sent{strings.ToUpper(method), path, action}
			}
		}
	}
	return names, operations
}

// actions returns the values of an operation's query parameter "action". An empty string stands for
// a request without this parameter.
func actions(operation yamldoc.Object) []string {
	for _, parameter := range operation.Objects("parameters") {
		if parameter.Text("name") != "action" {
			continue
		}
		all := parameter.At("schema").Texts("enum")
		if parameter.Get("required") != true {
			all = append([]string{""}, all...)
		}
		return all
	}
	return []string{""}
}

// TestSurfaceOfDocument compares the list of the SDKs' methods with the OpenAPI document. For each
// operation, the list must contain a method, or a reason why there is none.
func TestSurfaceOfDocument(t *testing.T) {
	t.Parallel()
	want, _ := documentOperations(t)
	var got []string
	without := map[string][]string{}
	for _, o := range surface.Operations {
		name := strings.TrimSpace(o.ID + " " + o.Action)
		got = append(got, name)
		if (len(o.SDK) == 0) == (o.None == "") {
			t.Errorf("%s needs either a method or a reason", name)
		}
		if o.None != "" {
			without[o.None] = append(without[o.None], name)
		}
	}

	for _, name := range want {
		if !slices.Contains(got, name) {
			t.Errorf("scripts/internal/surface does not list %q: add a method to the three SDKs, or the reason why there is none", name)
		}
	}
	for i, name := range got {
		if !slices.Contains(want, name) || slices.Contains(got[:i], name) {
			t.Errorf("scripts/internal/surface lists %q, which is not in the document, or twice", name)
		}
	}
	for reason, names := range without {
		t.Logf("no method, %s: %s", reason, strings.Join(names, ", "))
	}
}

// compareMethods fails the test unless an SDK has exactly the methods in the list.
func compareMethods(t *testing.T, sdk string, got []string) {
	t.Helper()
	want := surface.Methods(sdk)
	for method := range want {
		if !slices.Contains(got, method) {
			t.Errorf("%s lacks %s", sdk, method)
		}
	}
	for _, method := range got {
		if !want[method] {
			t.Errorf("scripts/internal/surface does not list %s of %s", method, sdk)
		}
	}
}

// TestSurfaceOfRunFilters checks that each SDK sends every filter of the list of runs, because the
// filters are written by hand in the SDKs.
func TestSurfaceOfRunFilters(t *testing.T) {
	t.Parallel()
	read := func(path ...string) string {
		t.Helper()
		raw, err := os.ReadFile(filepath.Join(append([]string{testkit.Root(t)}, path...)...))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	doc, err := yamldoc.Parse([]byte(read("ingress", "internal", "openapi", "openapi.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{
		"Go": read("sdk", "go", "runs.go"), "Python": read("sdk", "python", "src", "parley", "_runs.py"),
		"TypeScript": read("sdk", "typescript", "src", "runs.ts"),
	}
	others := []string{"id", "wait", "stream", "timeline", "export"} // parameters that are no filters
	filters := 0
	for _, parameter := range doc.At("paths", "/api/runs", "get").Objects("parameters") {
		name := parameter.Text("name")
		if name == "" || slices.Contains(others, name) {
			continue
		}
		filters++
		for sdk, source := range sources {
			if !strings.Contains(source, `"`+name+`"`) {
				t.Errorf("the list of runs of the %s SDK lacks the filter %s", sdk, name)
			}
		}
	}
	if filters < 9 {
		t.Errorf("the document has %d filters of runs", filters)
	}
}

// TestSurfaceOfTypeScript compares the methods of the TypeScript SDK with the list of methods.
func TestSurfaceOfTypeScript(t *testing.T) {
	t.Parallel()
	node := needsNode(t)
	dir := typeScriptProject(t)
	copyFiles(t, filepath.Join(testkit.Root(t), "scripts", "clients", "typescript"), dir)
	var got []string
	decode(t, []byte(succeed(t, dir, nil, node, "methods.mjs")), &got)
	compareMethods(t, "typescript", got)
}

// TestSurfaceOfPython compares the methods of the synchronous and the asynchronous client with the
// list of methods. No method's name may shadow a Python builtin.
func TestSurfaceOfPython(t *testing.T) {
	t.Parallel()
	needsPython(t)
	dir, interpreter := theEnv.pythonProject(t)
	var got struct{ Sync, Async, Shadowed []string }
	decode(t, []byte(succeed(t, dir, []string{"PYTHONPATH=", "PYTHONDONTWRITEBYTECODE=1"}, interpreter, pythonFile(t, "methods.py"))), &got)
	for _, methods := range [][]string{got.Sync, got.Async} {
		for i, method := range methods {
			methods[i] = camelCase(method)
		}
		compareMethods(t, "python", methods)
	}
	if len(got.Shadowed) > 0 {
		t.Errorf("these names shadow builtins: %v", got.Shadowed)
	}
}

// camelCase returns a Python name as TypeScript writes it.
func camelCase(name string) string {
	words := strings.Split(name, "_")
	for i, word := range words[1:] {
		words[i+1] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, "")
}

// TestSurfaceOfGo compares the methods of the Go SDK with the list of methods.
func TestSurfaceOfGo(t *testing.T) {
	t.Parallel()
	var got []string
	for group := range reflect.TypeFor[parley.Client]().Fields() {
		if !group.IsExported() {
			continue
		}
		for method := range group.Type.Methods() {
			got = append(got, uncapitalized(group.Name)+"."+uncapitalized(method.Name))
		}
	}
	compareMethods(t, "go", got)
}

func uncapitalized(name string) string {
	return string(unicode.ToLower(rune(name[0]))) + name[1:]
}

// checkRequested checks that the recorded requests contain each operation for which the SDKs have a
// method.
func checkRequested(t *testing.T, requests []faultproxy.Request) {
	t.Helper()
	seen := map[sent]bool{}
	for _, request := range requests {
		at, err := url.Parse(request.Path)
		if err != nil {
			t.Fatal(err)
		}
		seen[sent{request.Method, at.Path, at.Query().Get("action")}] = true
	}

	_, operations := documentOperations(t)
	for _, o := range surface.Operations {
		want := operations[strings.TrimSpace(o.ID+" "+o.Action)]
		rare := slices.Contains([]string{"happened", "resend", "abandon"}, o.Action) && o.ID == "postRuns" // for calls of unknown outcome
		if o.None == "" && !rare && !seen[want] {
			t.Errorf("the client sent no %+v (%v)", want, o.SDK)
		}
	}
}
