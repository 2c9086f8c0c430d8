package httpx

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"parley/shared/contract"
)

// ReadOnly is a field of a PUT that only the service sets. It may come back as it was read: see [Unchanged].
type ReadOnly = Optional[json.RawMessage]

// Moving is a field of a PUT that the service sets and that changes by itself, such as a count. Any value of its type is taken: the field
// may have changed since the caller read it.
type Moving[T any] = Removable[T]

// Removable is a field of a body that may be left out, and that null removes: the value is the zero value then.
type Removable[T any] struct {
	Set   bool
	Value T
	Null  bool
}

func (Removable[T]) optional() {}

// Or gives the value, other when there is none.
func (o Removable[T]) Or(other T) T {
	if o.Set {
		return o.Value
	}
	return other
}

// Pointer gives the value of a field that was sent, or nil.
func (o Removable[T]) Pointer() *T {
	if !o.Set {
		return nil
	}
	return &o.Value
}

// Unchanged refuses read-only fields of a body that differ from those of shown, the thing as callers read it.
func Unchanged(found *Problems, body, shown any) error {
	raw, err := json.Marshal(shown)
	if err != nil {
		return fmt.Errorf("rendering what was read: %w", err)
	}
	var known map[string]json.RawMessage
	if err := json.Unmarshal(raw, &known); err != nil {
		return fmt.Errorf("reading what was rendered: %w", err)
	}
	fields := reflect.ValueOf(body)
	for _, f := range reflect.VisibleFields(fields.Type()) {
		if f.Type != reflect.TypeFor[ReadOnly]() {
			continue
		}
		given, _ := reflect.TypeAssert[ReadOnly](fields.FieldByIndex(f.Index))
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if given.Set && !bytes.Equal(contract.Canonical(given.Value), contract.Canonical(known[name])) {
			found.Add(name, CodeInvalidValue, "is read-only: leave it out, or send it as it was read")
		}
	}
	return found.Err()
}
