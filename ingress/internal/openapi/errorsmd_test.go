package openapi

import (
	"bytes"
	"flag"
	"os"
	"testing"
	"text/template"
)

var update = flag.Bool("update", false, "rewrite docs/errors.md")

// errorsPage renders docs/errors.md, which shows the content of the page /docs/errors to readers of
// the repository.
var errorsPage = template.Must(template.New("").Parse(`# Errors

<!-- Generated from ingress/internal/openapi/openapi.yaml by: cd ingress && go test ./internal/openapi -update -->

Look up what an error code means and what to do. The running service shows this page at
` + "`/docs/errors`" + `.

Every error is ` + "`application/problem+json`" + ` (RFC 9457):

` + "```json\n{{.Example}}\n```" + `

` + "`code`" + ` never changes its meaning. ` + "`detail`" + ` is for people, and ` + "`errors`" + ` names every faulty field.
` + "`retryable`" + ` means that the same request may succeed later. With 429 and 503, the header
` + "`Retry-After`" + ` is the number of seconds to wait.

| status | code | meaning |
|---|---|---|
{{range .Codes}}| {{.Status}} | ` + "`{{.Code}}`" + ` | {{.Meaning}} |
{{end}}
## What is wrong with a field

| code | meaning |
|---|---|
{{range .Fields}}| ` + "`{{.Name}}`" + ` | {{.Meaning}} |
{{end}}
## Why a run failed

For a run that failed permanently, the response is 200 with ` + "`\"status\":\"failed\"`" + `: the request
succeeded, the agent did not. The run's ` + "`error.code`" + ` is one of:

| code | meaning |
|---|---|
{{range .Runs}}| ` + "`{{.Name}}`" + ` | {{.Meaning}} |
{{end}}`))

// TestErrorsPage checks that docs/errors.md is in sync with openapi.yaml.
func TestErrorsPage(t *testing.T) {
	t.Parallel()
	const path = "../../../docs/errors.md"
	var want bytes.Buffer
	err := errorsPage.Execute(&want, map[string]any{
		"Example": ExampleFor("InvalidRequest"), "Codes": ErrorCodes(), "Fields": Words("FieldErrorCode"), "Runs": Words("RunErrorCode"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Error("docs/errors.md is out of date; update it with cd ingress && go test ./internal/openapi -update")
	}
}
