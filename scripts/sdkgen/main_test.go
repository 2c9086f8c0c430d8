package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/shared/testkit"

	"parley/shared/yamldoc"
)

// TestDrift checks that the generated files match the document.
func TestDrift(t *testing.T) {
	t.Parallel()
	root := testkit.Root(t)
	doc, err := load(root)
	if err != nil {
		t.Fatal(err)
	}

	for _, file := range generators {
		made, err := file.make(doc)
		if err != nil {
			t.Fatalf("%s: %v", file.path, err)
		}
		there, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file.path)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(made, there) {
			t.Errorf("%s does not match %s; run make generate\n%s", file.path, source, firstDifference(string(there), string(made)))
		}
		if again, err := file.make(doc); err != nil || !bytes.Equal(made, again) {
			t.Errorf("generating %s again gives a different result: %v", file.path, err)
		}
	}
}

// firstDifference returns the first line in which two texts differ.
func firstDifference(there, made string) string {
	old, now := strings.Split(there, "\n"), strings.Split(made, "\n")
	for i := range min(len(old), len(now)) {
		if old[i] != now[i] {
			return "is   " + old[i] + "\nbut  " + now[i]
		}
	}
	return "one text continues after the other ends"
}

// TestGenerate generates all files in an empty repository, which has none of their directories.
func TestGenerate(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := generate(root); err == nil || !strings.Contains(err.Error(), "reading the document") {
		t.Errorf("without a document: %v", err)
	}

	path := filepath.Join(root, filepath.FromSlash(source))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(schemas("Thing: {type: object, properties: {id: {type: string}}, additionalProperties: false}")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := generate(root); err != nil {
		t.Fatal(err)
	}

	for _, file := range generators {
		raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file.path)))
		if err != nil || !strings.Contains(string(raw), notice) {
			t.Errorf("%s: %v\n%s", file.path, err, raw)
		}
	}
}

// schemas returns an OpenAPI document with the given schemas.
func schemas(lines ...string) string {
	return "openapi: 3.1.0\ninfo: {title: T, version: '1'}\npaths: {}\ncomponents:\n  schemas:\n    " + strings.Join(lines, "\n    ") + "\n"
}

func parsed(t *testing.T, raw string) object {
	t.Helper()
	doc, err := yamldoc.Parse([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}
