// Command sdkgen writes what follows from the HTTP contract and nobody should write by hand: the types of both SDKs and the Postman
// collection.
//
//	ingress/internal/openapi/openapi.yaml ──▶ sdk/typescript/src/types.ts
//	                                      ├─▶ sdk/python/src/parley/types.py
//	                                      └─▶ docs/parley.postman_collection.json
//
// The document is read into definitions (definition.go, schema.go, operations.go), which each language writes in its own words
// (typescript.go, python.go). The same document gives the same bytes; `make generate` makes the files anew, and a test fails when they
// are not what the document gives.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"parley/shared/yamldoc"
)

// object is a mapping of the document, in the order of its source.
type object = yamldoc.Object

//go:generate go run . ../..

// source is the document, in the repository.
const source = "ingress/internal/openapi/openapi.yaml"

// generators are the files that are made, in the repository, each with what makes it.
var generators = []struct {
	path string
	make func(object) ([]byte, error)
}{
	{"sdk/typescript/src/types.ts", typeScript},
	{"sdk/python/src/parley/types.py", python},
	{"docs/parley.postman_collection.json", postman},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sdkgen DIRECTORY (of the repository)")
		os.Exit(2)
	}
	if err := generate(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "sdkgen:", err)
		os.Exit(1)
	}
}

// generate writes the files of the repository at root.
func generate(root string) error {
	doc, err := load(root)
	if err != nil {
		return err
	}
	for _, file := range generators {
		made, err := file.make(doc)
		if err != nil {
			return fmt.Errorf("making %s: %w", file.path, err)
		}
		path := filepath.Join(root, filepath.FromSlash(file.path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // G301: a folder of the repository
			return fmt.Errorf("making folder: %w", err)
		}
		if err := os.WriteFile(path, made, 0o644); err != nil { //nolint:gosec // G306: a file of the repository
			return fmt.Errorf("writing: %w", err)
		}
	}
	return nil
}

func load(root string) (object, error) {
	raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(source)))
	if err != nil {
		return nil, fmt.Errorf("reading the document: %w", err)
	}
	return yamldoc.Parse(raw)
}
