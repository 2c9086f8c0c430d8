package sealdb

import (
	"context"
	"fmt"
)

// SealedKind says what a sealed value is part of.
type SealedKind string

// Kinds of sealed values.
const (
	SealedTool         SealedKind = "tool"         // headers and signing secrets of an agent's tools
	SealedToolVersion  SealedKind = "tool_version" // the same of a version of an agent, which runs use
	SealedWidget       SealedKind = "widget"       // the identity secret of an agent's widget
	SealedHook         SealedKind = "hook"         // the secrets of a hook
	SealedNotification SealedKind = "notification" // the secrets of a notification endpoint
	SealedDelivery     SealedKind = "delivery"     // the body of a delivery to a hook
	SealedContent      SealedKind = "content"      // a chunk of a document or file
)

// SealedKinds are all kinds, in the order in which they are listed.
var SealedKinds = []SealedKind{
	SealedTool, SealedToolVersion, SealedWidget, SealedHook, SealedNotification, SealedDelivery, SealedContent,
}

// SealedValue is a row that holds sealed values, without the values. ID is that of an agent, a hook or an endpoint, and the hash of a
// content. Part is the version of an agent, the id of a delivery, or the number of a chunk.
type SealedValue struct {
	Kind           SealedKind `db:"-"`
	Keys           string     `db:"keys"` // ids of the keys that seal it, joined by commas
	OrganizationID string     `db:"org_id"`
	ID             string     `db:"id"`
	Part           string     `db:"part"`
}

// String names the value for an operator.
func (v SealedValue) String() string {
	switch v.Kind {
	case SealedToolVersion:
		return fmt.Sprintf("%s %s version %s of %s", v.Kind, v.ID, v.Part, v.OrganizationID)
	case SealedDelivery, SealedContent:
		return fmt.Sprintf("%s %s %s of %s", v.Kind, v.ID, v.Part, v.OrganizationID)
	default:
		return fmt.Sprintf("%s %s of %s", v.Kind, v.ID, v.OrganizationID)
	}
}

// afterKeys is the position behind the last value that has exactly these keys: no organization's id is greater than it.
func afterKeys(keys string) SealedValue { return SealedValue{Keys: keys, OrganizationID: "~"} }

// SealedValues lists up to limit sealed values of a kind, of all organizations, in the order of their keys: those after the given
// one. The zero value is before the first.
func (s *Store) SealedValues(ctx context.Context, kind SealedKind, after SealedValue, limit int) ([]SealedValue, error) {
	var values []SealedValue
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

// SealedKeys gives the combinations of keys that seal values of a kind: SealedValue.Keys of any. It reads one entry of an index for
// each, however many values there are.
func (s *Store) SealedKeys(ctx context.Context, kind SealedKind) ([]string, error) {
	var keys []string
	for at := (SealedValue{}); ; {
		next, err := s.SealedValues(ctx, kind, at, 1)
		if err != nil || len(next) == 0 {
			return keys, err
		}
		keys = append(keys, next[0].Keys)
		at = afterKeys(next[0].Keys)
	}
}
