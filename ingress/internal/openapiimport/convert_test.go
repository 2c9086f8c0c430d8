package openapiimport_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"parley/ingress/internal/openapiimport"
	"parley/shared/domain"
	"parley/shared/endpoint"
	"parley/shared/schema"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestDocuments(t *testing.T) {
	t.Parallel()
	for file, options := range map[string]openapiimport.Options{
		"petstore.yaml": {},
		"orders.json":   {ServerURL: "https://shop.example/base"},
		"tree.yaml":     {},
		"broken.json":   {},
	} {
		endpoints, skipped, err := openapiimport.Convert(testdata(t, file), options)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		checkEndpoints(t, endpoints)
		got, err := json.MarshalIndent(map[string]any{"endpoints": endpoints, "skipped": skipped}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", file+".golden")
		if *update {
			if err := os.WriteFile(golden, append(got, '\n'), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if want := testdata(t, file+".golden"); string(want) != string(got)+"\n" {
			t.Errorf("%s: got %s", file, got)
		}
	}
}

func testdata(tb testing.TB, name string) []byte {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// checkEndpoints checks the properties that every imported endpoint must have.
func checkEndpoints(tb testing.TB, endpoints []domain.Endpoint) {
	tb.Helper()
	seen := map[string]bool{}
	if len(endpoints) > 32 {
		tb.Errorf("%d endpoints", len(endpoints))
	}
	for _, e := range endpoints {
		if !regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`).MatchString(e.Name) || seen[e.Name] || len([]rune(e.Description)) > 1000 {
			tb.Errorf("%q: %q", e.Name, e.Description)
		}
		seen[e.Name] = true
		raw, err := json.Marshal(e.InputSchema)
		if err != nil || len(raw) > 16<<10 {
			tb.Errorf("%s: %d bytes of schema, %v", e.Name, len(raw), err)
		}
		if _, err := schema.Compile(raw); err != nil {
			tb.Errorf("%s: %v", e.Name, err)
		}
		template, err := endpoint.Parse(e.URL)
		if err != nil {
			tb.Errorf("%s: %v", e.Name, err)
			continue
		}
		input, _ := e.InputSchema.(map[string]any)
		properties, _ := input["properties"].(map[string]any)
		path, query := template.Variables()
		for _, name := range slices.Concat(path, query) {
			if _, known := properties[name]; !known {
				tb.Errorf("%s: the variable %s is not an argument", e.Name, name)
			}
		}
	}
}

// named returns the names of the endpoints, separated by spaces.
func named(endpoints []domain.Endpoint) string {
	names := make([]string, len(endpoints))
	for i, e := range endpoints {
		names[i] = e.Name
	}
	return strings.Join(names, " ")
}

func TestOperationsAreChosenByIDOrPath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, operations, want string }{
		{"petstore.yaml", "addPet,listPets", "listPets addPet"},
		{"petstore.yaml", "get /pets/{id},DELETE  /pets/{id}", "get_pet delete_pets_id"},
		{"petstore.yaml", "get pet", "get_pet"},
		{"petstore.yaml", "bulk", ""}, // skipped, and listed among the skipped operations
		{"petstore.yaml", "addPet,nothing,POST /pets,,PUT /nowhere", "operations[1] invalid_value, operations[2] duplicate, operations[3] invalid_value, operations[4] invalid_value"},
		{"orders.json", "orders.create", "operations[0] invalid_value"},
		{"orders.json", "PATCH /orders/{order-id}/lines/{id}", "orders_create_2"}, // the same name as in an import of all operations
	} {
		endpoints, _, err := openapiimport.Convert(testdata(t, c.file), openapiimport.Options{
			Operations: strings.Split(c.operations, ","), ServerURL: "https://shop.example",
		})
		got := named(endpoints)
		if err != nil {
			got = errorCodes(err)
		}
		if got != c.want {
			t.Errorf("%s %s: %s, %v", c.file, c.operations, got, err)
		}
	}
}

// errorCodes returns the fields and codes that an error lists.
func errorCodes(err error) string {
	var invalid *openapiimport.Invalid
	if !errors.As(err, &invalid) {
		return "internal: " + err.Error()
	}
	all := make([]string, len(invalid.Problems))
	for i, p := range invalid.Problems {
		all[i] = p.Field + " " + p.Code
	}
	return strings.Join(all, ", ")
}

func TestInvalidDocuments(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 70) + strings.Repeat("]", 70)
	laughs := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'j'; c++ {
		laughs += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.Repeat(fmt.Sprintf("*%c,", c-1), 9)+fmt.Sprintf("*%c", c-1))
	}
	for document, want := range map[string]string{
		``:                          "document invalid_value",
		`{`:                         "document invalid_value",
		`{} {}`:                     "document invalid_value",
		`[]`:                        "document invalid_value",
		`"text"`:                    "document invalid_value",
		`text`:                      "document invalid_value",
		"a: b: c":                   "document invalid_value",
		"a: 1\na: 2":                "document invalid_value",
		"? [a]\n: b":                "document invalid_value",
		"\xff\xfe":                  "document invalid_value",
		"{\"openapi\": \"\xff\"}":   "document invalid_value",
		`{}`:                        "document invalid_value",
		`{"swagger":"2.0"}`:         "document invalid_value",
		`{"openapi":"3.2.0"}`:       "document invalid_value",
		`{"openapi":3.1}`:           "document invalid_value",
		`{"openapi":"3.1.0"}`:       "document invalid_value",
		"openapi: 3.1.0\npaths: {}": "document invalid_value",
		"openapi: 3.1.0\npaths: {/a: &a {get: *a}}":       "document too_deep",
		`{"openapi":"3.1.0","paths":{},"x":` + deep + `}`: "document too_deep",
		"openapi: 3.1.0\npaths: {}\nx: " + deep:           "document too_deep",
		laughs:                                            "document too_long",
		"[" + strings.Repeat("1,", 600_000) + "1]":        "document too_long",
		strings.Repeat(" ", 2<<20) + " ":                  "document too_long",
		strings.Repeat("[", 1<<18):                        "document invalid_value",
		strings.Repeat("[", 1<<20):                        "document too_long",
		strings.Repeat("{\"a\":", 1<<18):                  "document invalid_value",
	} {
		_, _, err := openapiimport.Convert([]byte(document), openapiimport.Options{})
		if err == nil || errorCodes(err) != want {
			t.Errorf("%.40q: %v", document, err)
		}
	}
}

// one returns a document with a single operation.
func one(operation, rest string) []byte {
	return fmt.Appendf(nil, `{"openapi":"3.1.0","paths":{"/x":{"post":%s}}%s}`, operation, rest)
}

func TestServers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ servers, given, want string }{
		{`"https://a.example/v1/"`, "", "https://a.example/v1/x"},
		{`"https://a.example/v1"`, "http://b.example:81/v2/", "http://b.example:81/v2/x"},
		{`"/v1"`, "https://b.example/v2", "https://b.example/v1/x"},
		{`"v1"`, "https://b.example/v2", "https://b.example/v2/v1/x"},
		{`"/"`, "https://b.example/v2", "https://b.example/v2/x"},
		{``, "https://b.example/v2", "https://b.example/v2/x"},
		{`"/v1"`, "", "serverUrl required"},
		{``, "", "serverUrl required"},
		{`"//a.example/v1"`, "", "skipped"},
		{`"https://a.example/v1?x=1"`, "", "skipped"},
		{`"https://u:p@a.example"`, "", "skipped"},
		{`"https://{host}/v1"`, "", "skipped"},
		{`"ftp://a.example"`, "", "skipped"},
		{`"https://a b.example"`, "", "skipped"},
		{`"/v1"`, "b.example", "serverUrl invalid_value"},
		{`"/v1"`, "https://u:p@b.example", "serverUrl invalid_value"},
		{`"/v1"`, "https://b.example/?x", "serverUrl invalid_value"},
		{`"/v1"`, "https://b.example/" + strings.Repeat("x", 2048), "serverUrl too_long"},
	} {
		servers := ""
		if c.servers != "" {
			servers = `,"servers":[{"url":` + c.servers + `}]`
		}
		endpoints, skipped, err := openapiimport.Convert(one(`{}`, servers), openapiimport.Options{ServerURL: c.given})
		var got string
		switch {
		case err != nil:
			got = errorCodes(err)
		case len(skipped) == 1:
			got = "skipped"
		default:
			got = endpoints[0].URL
		}
		if got != c.want {
			t.Errorf("%s at %s: %s, %v", c.servers, c.given, got, skipped)
		}
	}
}

func TestTooManyOperationsMustBeNamed(t *testing.T) {
	t.Parallel()
	many := func(n int) []byte {
		var paths []string
		for i := range n {
			paths = append(paths, fmt.Sprintf(`"/p%02d":{"get":{}}`, i))
		}
		return fmt.Appendf(nil, `{"openapi":"3.0.0","servers":[{"url":"https://a.example"}],"paths":{%s}}`, strings.Join(paths, ","))
	}
	endpoints, _, err := openapiimport.Convert(many(32), openapiimport.Options{})
	if err != nil || len(endpoints) != 32 {
		t.Errorf("%d, %v", len(endpoints), err)
	}
	if _, _, err := openapiimport.Convert(many(33), openapiimport.Options{}); err == nil || errorCodes(err) != "operations required" {
		t.Error(err)
	}
	endpoints, _, err = openapiimport.Convert(many(33), openapiimport.Options{Operations: []string{"GET /p32"}})
	if err != nil || named(endpoints) != "get_p32" {
		t.Errorf("%s, %v", named(endpoints), err)
	}
	if _, _, err := openapiimport.Convert(many(40), openapiimport.Options{Operations: make([]string, 33)}); err == nil || errorCodes(err) != "operations too_long" {
		t.Error(err)
	}
}

// Even if a document is within all size limits, its schemas may expand to an enormous size. Such a
// document is rejected quickly, and the error states the reason.
func TestWorkIsBounded(t *testing.T) {
	t.Parallel()
	var schemas, paths []string
	for level := range 20 {
		next := fmt.Sprintf(`{"$ref":"#/components/schemas/L%d"}`, level+1)
		schemas = append(schemas, fmt.Sprintf(`"L%d":{"properties":{"p0":%s,"p1":%s,"p2":%s,"p3":%s,"p4":%s,"p5":%s,"p6":%s,"p7":%s}}`, level, next, next, next, next, next, next, next, next))
	}
	schemas = append(schemas, `"L20":{"enum":["`+strings.Repeat("x", 20<<10)+`"]}`)
	for i := range 2000 {
		paths = append(paths, fmt.Sprintf(`"/p%d":{"put":{"requestBody":{"content":{"application/json":{"schema":{"properties":{"a":{"$ref":"#/components/schemas/L%d"}}}}}}}}`, i, 18+i%3))
	}
	document := fmt.Appendf(nil, `{"openapi":"3.1.0","servers":[{"url":"https://a.example"}],"paths":{%s},"components":{"schemas":{%s}}}`,
		strings.Join(paths, ","), strings.Join(schemas, ","))
	_, _, err := openapiimport.Convert(document, openapiimport.Options{})
	if err == nil || !strings.HasPrefix(errorCodes(err), "operations ") && errorCodes(err) != "document too_long" {
		t.Error(err)
	}
}

func FuzzConvert(f *testing.F) {
	for _, file := range []string{"petstore.yaml", "orders.json", "tree.yaml", "broken.json"} {
		f.Add(testdata(f, file), "", "")
		f.Add(testdata(f, file), "addPet", "https://b.example/v2")
	}
	f.Add([]byte("openapi: 3.1.0\npaths: {/a/{b}: {get: {parameters: [{$ref: '#/paths/~1a~1{b}/get'}]}}}"), "GET /a/{b}", "https://b.example")
	f.Add([]byte("{\"openapi\":\"3.1\",\"paths\":{\"/\":{\"put\":{\"requestBody\":{\"content\":{\"*/*\":{\"schema\":{\"$ref\":\"#/paths\"}}}}}}}}"), "", "http://b.example")
	f.Fuzz(func(t *testing.T, document []byte, operation, server string) {
		options := openapiimport.Options{ServerURL: server}
		if operation != "" {
			options.Operations = []string{operation}
		}
		endpoints, _, err := openapiimport.Convert(document, options)
		var invalid *openapiimport.Invalid
		if err != nil && (!errors.As(err, &invalid) || len(invalid.Problems) == 0 || endpoints != nil) {
			t.Errorf("%v together with %d endpoints", err, len(endpoints))
		}
		checkEndpoints(t, endpoints)
	})
}
