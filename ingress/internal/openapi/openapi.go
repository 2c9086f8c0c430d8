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

// parsed is the document as it was read, and as it is served.
type parsed struct {
	root     object
	document []byte
}

// read reads the embedded document once. A document that cannot be read is a fault of the build, which the
// tests find.
var read = sync.OnceValue(func() parsed {
	root, err := yamldoc.Parse(source)
	if err != nil {
		panic(fmt.Errorf("reading openapi.yaml: %w", err))
	}
	document, err := yamldoc.JSON(withHead(root))
	if err != nil {
		panic(fmt.Errorf("writing openapi.yaml as JSON: %w", err))
	}
	return parsed{root, document}
})

// object is a mapping of the document, in the order of its source.
type object = yamldoc.Object

// withHead gives the document with a HEAD beside each GET that does not say x-no-head: the source leaves them out.
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

// addHead describes HEAD of a path as its GET, whose headers it answers.
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

// Document gives the OpenAPI document as JSON, in the order of its source. The bytes are shared: nobody changes them.
func Document() []byte { return read().document }

// Version gives the version of the service, which the document's info names.
func Version() string { return read().root.At("info").Text("version") }

// Title gives the name of the service.
func Title() string { return read().root.At("info").Text("title") }
