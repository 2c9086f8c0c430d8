package schema

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"parley/shared/truncate"
)

// typeNames are the types of JSON Schema.
var typeNames = strings.Fields(`array boolean integer null number object string`)

// checkTypes returns an error for the first type in a schema that does not exist, with its JSON
// Pointer. The library's message about such a type is misleading. The argument named at is
// the value's JSON Pointer, and the argument named is contains the value's role.
func checkTypes(value any, is position, at string) error {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			path := at + "/" + truncate.Ellipsis(escapeKey(key), maxWord)
			if is == aSchema && key == "type" {
				if err := checkType(value[key], path); err != nil {
					return err
				}
				continue
			}
			if err := checkTypes(value[key], is.within(key), path); err != nil {
				return err
			}
		}
	case []any:
		for i, one := range value {
			if err := checkTypes(one, is, at+"/"+strconv.Itoa(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkType checks the value of the keyword type.
func checkType(value any, at string) error {
	switch value := value.(type) {
	case string:
		if !slices.Contains(typeNames, value) {
			return fmt.Errorf("%s: unknown type %q; the types are %s", at, truncate.Ellipsis(value, maxWord), strings.Join(typeNames, ", "))
		}
	case []any:
		for i, one := range value {
			if err := checkType(one, at+"/"+strconv.Itoa(i)); err != nil {
				return err
			}
		}
	}
	return nil
}
