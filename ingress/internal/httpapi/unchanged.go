package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// readOnly is a field of a PUT that only the service sets. It may come back as it was read: see [unchanged].
type readOnly = optional[json.RawMessage]

// removable is a field of a body that may be left out, and that null removes: the value is the zero value then.
type removable[T any] struct {
	Set   bool
	Value T
	Null  bool
}

func (removable[T]) optional() {}

// or gives the value, other when there is none.
func (o removable[T]) or(other T) T {
	if o.Set {
		return o.Value
	}
	return other
}

// pointer gives the value of a field that was sent, or nil.
func (o removable[T]) pointer() *T {
	if !o.Set {
		return nil
	}
	return &o.Value
}

// unchanged refuses read-only fields of a body that differ from those of shown, the thing as callers read it.
func unchanged(found *problems, body, shown any) error {
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
		if f.Type != reflect.TypeFor[readOnly]() {
			continue
		}
		given, _ := reflect.TypeAssert[readOnly](fields.FieldByIndex(f.Index))
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if given.Set && !bytes.Equal(canonical(given.Value), canonical(known[name])) {
			found.add(name, codeInvalidValue, "is read-only: leave it out, or send it as it was read")
		}
	}
	return found.err()
}
