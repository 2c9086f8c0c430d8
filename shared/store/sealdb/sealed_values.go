package sealdb

import (
	"context"
	"fmt"
)

// Kind is the kind of resource that contains a sealed value.
type Kind string

// These are the kinds of sealed values.
const (
	KindTool         Kind = "tool"         // headers and signing secrets of an agent's tools
	KindToolVersion  Kind = "tool_version" // the same as KindTool, in a stored version of the agent
	KindWidget       Kind = "widget"       // the identity secret of an agent's widget
	KindHook         Kind = "hook"         // the secrets of a hook
	KindNotification Kind = "notification" // the secrets of a notification endpoint
	KindDelivery     Kind = "delivery"     // the body of a delivery to a hook
	KindContent      Kind = "content"      // a chunk of a document or file
)

// Kinds contains every kind of sealed value, in the order in which the commands for operators list
// them.
var Kinds = []Kind{
	KindTool, KindToolVersion, KindWidget, KindHook, KindNotification, KindDelivery, KindContent,
}

// Value identifies a row that contains sealed values. ID is the id of an agent, a hook or an
// endpoint, or the hash of a blob. Part is the version of an agent, the id of a delivery, or the
// number of a chunk.
type Value struct {
	Kind           Kind   `db:"-"`
	Keys           string `db:"keys"` // ids of the keys with which the value is sealed, separated by commas
	OrganizationID string `db:"org_id"`
	ID             string `db:"id"`
	Part           string `db:"part"`
}

// String identifies the value for an operator.
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

// afterKeys returns a position after the last value that is sealed with exactly these keys. "~" is
// greater than the id of any organization.
func afterKeys(keys string) Value { return Value{Keys: keys, OrganizationID: "~"} }

// SealedValues lists sealed values of one kind in all organizations, at most limit of them, ordered
// by their keys and starting after the given value. The zero value starts at the beginning. The
// values themselves are not read.
func (s *Store) SealedValues(ctx context.Context, kind Kind, after Value, limit int) ([]Value, error) {
	var values []Value
	err := s.db.SelectContext(ctx, &values, `SELECT keys, org_id, id, part FROM sealed_values($1, $2, $3, $4, $5, $6)`,
		string(kind), after.Keys, after.OrganizationID, after.ID, after.Part, limit)
	if err != nil {
		return nil, fmt.Errorf("listing encrypted values: %w", err)
	}
	for i := range values {
		values[i].Kind = kind
	}
	return values, nil
}

// SealedKeys returns the distinct values of Value.Keys of one kind. It reads one index entry for
// each result, regardless of the number of sealed values.
func (s *Store) SealedKeys(ctx context.Context, kind Kind) ([]string, error) {
	var keys []string
	for at := (Value{}); ; {
		next, err := s.SealedValues(ctx, kind, at, 1)
		if err != nil || len(next) == 0 {
			return keys, err
		}

		// The next statement continues after the last value with these keys.
		keys = append(keys, next[0].Keys)
		at = afterKeys(next[0].Keys)
	}
}
