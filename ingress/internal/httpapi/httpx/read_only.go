package httpx

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"parley/shared/contract"
)

// ReadOnly is a field of a PUT body that only the service sets. A caller may send back the value
// that was read; see [Unchanged].
type ReadOnly = Optional[json.RawMessage]

// Volatile is a field of a PUT body that only the service sets, and whose value changes, such as a
// count. A caller may send any value, because the value may have changed since the caller read it.
type Volatile[T any] = Removable[T]

// Removable is a field that may be missing in a body or null. Null removes the value: the fields
// Set and Null are then true, and Value is the zero value. The decoder sets the fields.
type Removable[T any] struct {
	Optional[T]

	Null bool
}

// Unchanged adds a problem for each read-only field of body that differs from shown. shown is the
// resource in the form of responses. Unchanged returns an error if there are problems. body must be
// a struct. Fields that were not sent are not compared.
func Unchanged(found *Problems, body, shown any) error {
	raw, err := json.Marshal(shown)
	if err != nil {
		return fmt.Errorf("rendering the stored resource: %w", err)
	}

	var known map[string]json.RawMessage
	if err := json.Unmarshal(raw, &known); err != nil {
		return fmt.Errorf("parsing the rendered resource: %w", err)
	}

	// Compare the JSON without regard to formatting and the order of members, because clients may
	// change both.
	fields := reflect.ValueOf(body)
	for _, f := range reflect.VisibleFields(fields.Type()) {
		if f.Type != reflect.TypeFor[ReadOnly]() {
			continue
		}
		sent, _ := reflect.TypeAssert[ReadOnly](fields.FieldByIndex(f.Index))
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if sent.Set && !bytes.Equal(contract.Canonical(sent.Value), contract.Canonical(known[name])) {
			found.Add(name, CodeInvalidValue, "is read-only: omit it, or send it as it was read")
		}
	}

	return found.Err()
}
