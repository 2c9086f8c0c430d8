package openapi

import (
	_ "embed" // the document
	"fmt"
	"slices"
	"sync"

	"parley/shared/yamldoc"
)

//go:embed openapi.yaml
var source []byte

// parsed is the document as parsed and as served.
type parsed struct {
	root     object
	document []byte
}

// read parses the embedded document once. A document that cannot be parsed is a mistake in the
// build, which the tests find.
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

// object is a mapping of the document, in source order.
type object = yamldoc.Object

// withHead adds a HEAD to each GET without x-no-head, because the source omits them.
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

// addHead describes HEAD of a path like its GET, whose headers it returns.
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
// bytes.
func Document() []byte { return read().document }

// Version returns the version of the service, from the document's info.
func Version() string { return read().root.At("info").Text("version") }

// Title returns the name of the service.
func Title() string { return read().root.At("info").Text("title") }
