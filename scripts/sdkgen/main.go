// Command sdkgen generates the types of the SDKs and the Postman collection from the OpenAPI
// document.
//
//	ingress/internal/openapi/openapi.yaml ──▶ sdk/typescript/src/types.ts
//	                                      ├─▶ sdk/python/src/parley/types.py
//	                                      ├─▶ sdk/go/types.go
//	                                      └─▶ docs/parley.postman_collection.json
//
// The files definition.go, schema.go and operations.go parse the document into definitions. The
// files typescript.go, python.go and golang.go print the definitions in their language. The output
// depends only on the document. `make generate` writes the files, and a test fails if they are
// outdated.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"parley/shared/yamldoc"
)

// object is a mapping in the document. Its members have the document's order.
type object = yamldoc.Object

//go:generate go run . ../..

// source is the path of the OpenAPI document in the repository.
const source = "ingress/internal/openapi/openapi.yaml"

// generators lists the generated files with their generators.
var generators = []struct {
	path string
	make func(object) ([]byte, error)
}{
	{"sdk/typescript/src/types.ts", typeScript},
	{"sdk/python/src/parley/types.py", python},
	{"sdk/go/types.go", golang},
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

// generate writes all generated files below the repository's root.
func generate(root string) error {
	doc, err := load(root)
	if err != nil {
		return err
	}

	for _, file := range generators {
		made, err := file.make(doc)
		if err != nil {
			return fmt.Errorf("generating %s: %w", file.path, err)
		}
		path := filepath.Join(root, filepath.FromSlash(file.path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // G301: a directory of the repository
			return fmt.Errorf("creating folder: %w", err)
		}
		if err := os.WriteFile(path, made, 0o644); err != nil { //nolint:gosec // G306: a file of the repository
			return fmt.Errorf("writing: %w", err)
		}
	}
	return nil
}

// load reads the OpenAPI document of the repository below root.
func load(root string) (object, error) {
	raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(source)))
	if err != nil {
		return nil, fmt.Errorf("reading the document: %w", err)
	}
	return yamldoc.Parse(raw)
}
