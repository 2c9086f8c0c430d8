package sealdb

import (
	"context"
	"fmt"
)

// Kind says what a sealed value is part of.
type Kind string

// Kinds of sealed values.
const (
	KindTool         Kind = "tool"         // headers and signing secrets of an agent's tools
	KindToolVersion  Kind = "tool_version" // the same of a version of an agent, which runs use
	KindWidget       Kind = "widget"       // the identity secret of an agent's widget
	KindHook         Kind = "hook"         // the secrets of a hook
	KindNotification Kind = "notification" // the secrets of a notification endpoint
	KindDelivery     Kind = "delivery"     // the body of a delivery to a hook
	KindContent      Kind = "content"      // a chunk of a document or file
)

// Kinds are all kinds, in the order in which they are listed.
var Kinds = []Kind{
	KindTool, KindToolVersion, KindWidget, KindHook, KindNotification, KindDelivery, KindContent,
}

// Value is a row that holds sealed values, without the values. ID is that of an agent, a hook or an endpoint, and the hash of a
// content. Part is the version of an agent, the id of a delivery, or the number of a chunk.
type Value struct {
	Kind           Kind   `db:"-"`
	Keys           string `db:"keys"` // ids of the keys that seal it, joined by commas
	OrganizationID string `db:"org_id"`
	ID             string `db:"id"`
	Part           string `db:"part"`
}

// String names the value for an operator.
func (v Value) String() string {
	switch v.Kind {
	case KindToolVersion:
		return fmt.Sprintf("%s %s version %s of %s", v.Kind, v.ID, v.Part, v.OrganizationID)
	case KindDelivery, KindContent:
		return fmt.Sprintf("%s %s %s of %s", v.Kind, v.ID, v.Part, v.OrganizationID)
	default:
		return fmt.Sprintf("%s %s of %s", v.Kind, v.ID, v.OrganizationID)
	}
}

// afterKeys is the position behind the last value that has exactly these keys: no organization's id is greater than it.
func afterKeys(keys string) Value { return Value{Keys: keys, OrganizationID: "~"} }

// SealedValues lists up to limit sealed values of a kind, of all organizations, in the order of their keys: those after the given
// one. The zero value is before the first.
func (s *Store) SealedValues(ctx context.Context, kind Kind, after Value, limit int) ([]Value, error) {
	var values []Value
	err := s.db.SelectContext(ctx, &values, `SELECT keys, org_id, id, part FROM sealed_values($1, $2, $3, $4, $5, $6)`,
		string(kind), after.Keys, after.OrganizationID, after.ID, after.Part, limit)
	if err != nil {
		return nil, fmt.Errorf("listing sealed values: %w", err)
	}
	for i := range values {
		values[i].Kind = kind
	}
	return values, nil
}

// SealedKeys gives the combinations of keys that seal values of a kind: Value.Keys of any. It reads one entry of an index for
// each, however many values there are.
func (s *Store) SealedKeys(ctx context.Context, kind Kind) ([]string, error) {
	var keys []string
	for at := (Value{}); ; {
		next, err := s.SealedValues(ctx, kind, at, 1)
		if err != nil || len(next) == 0 {
			return keys, err
		}
		keys = append(keys, next[0].Keys)
		at = afterKeys(next[0].Keys)
	}
}
