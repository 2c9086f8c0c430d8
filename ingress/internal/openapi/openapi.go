package openapi

import (
	_ "embed" // needed to embed openapi.yaml
	"fmt"
	"slices"
	"sync"

	"parley/shared/yamldoc"
)

//go:embed openapi.yaml
var source []byte

// parsed contains the document, with HEAD operations, in parsed form and as JSON. It is created
// once; its contents must not be changed.
type parsed struct {
	root     object
	document []byte
}

// read parses the embedded document at the first call. It panics if the document is invalid; the
// tests check that it is valid. Parsing takes several milliseconds.
var read = sync.OnceValue(func() parsed {
	root, err := yamldoc.Parse(source)
	if err != nil {
		panic(fmt.Errorf("reading openapi.yaml: %w", err))
	}
	document, err := yamldoc.JSON(withHead(root))
	if err != nil {
		panic(fmt.Errorf("converting openapi.yaml to JSON: %w", err))
	}
	return parsed{root, document}
})

// object is a mapping of the YAML document. Its members keep their order. The package depends on
// the order, because the pages show it.
type object = yamldoc.Object

// withHead adds a HEAD operation to each GET operation that lacks x-no-head, because openapi.yaml
// contains no HEAD operations. It does not change root.
func withHead(root object) object {
	out := slices.Clone(root)
	for i, item := range out {
		paths, isObject := item.Value.(object)
		if item.Key != "paths" || !isObject {
			continue
		}

		paths = slices.Clone(paths)
		for j := range paths {
			if operations, ok := paths[j].Value.(object); ok {
				paths[j].Value = addHead(operations)
			}
		}
		out[i].Value = paths
	}
	return out
}

// addHead adds the HEAD operation of a path. The operation has the same description as GET and
// returns the same headers. Its operationId begins with "head-".
func addHead(operations object) object {
	get := operations.At("get")
	if get == nil || get.Flag("x-no-head") {
		return operations
	}

	head := slices.Clone(get)
	for i := range head {
		if head[i].Key == "operationId" {
			head[i].Value = "head-" + get.Text("operationId")
		}
	}
	return append(slices.Clone(operations), yamldoc.Item{Key: "head", Value: head})
}

// Document returns the OpenAPI document as JSON, in source order. Callers must not modify the
// bytes. The document has the HEAD operations.
func Document() []byte { return read().document }

// Version returns the version of the service, from the document's info. It is the version of the
// release.
func Version() string { return read().root.At("info").Text("version") }

// Title returns the name of the service.
func Title() string { return read().root.At("info").Text("title") }
