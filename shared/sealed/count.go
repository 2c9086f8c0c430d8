package sealed

import (
	"context"
	"slices"
	"strings"

	"parley/shared/secrets"
	"parley/shared/store/sealdb"
)

// pageSize is the number of values that are listed at a time.
const pageSize = 1000

// Values is the interface for listing the sealed values of the database. sealdb.Store implements
// it.
type Values interface {
	SealedValues(ctx context.Context, kind sealdb.Kind, after sealdb.Value, limit int) ([]sealdb.Value, error)
	SealedKeys(ctx context.Context, kind sealdb.Kind) ([]string, error)
}

// Key is a key of SECRETS_KEY, or a missing key, with the number of values that need it.
type Key struct {
	ID    string
	State State
	// Values contains the number of values that need the key, by kind. Kinds without such values
	// are absent.
	Values map[sealdb.Kind]int
}

// State is the state of a key in SECRETS_KEY.
type State string

// States of keys.
const (
	Current State = "current" // the first key, with which new values are sealed
	Old     State = "old"     // opens values that it sealed earlier
	Missing State = "missing" // values need the key, but SECRETS_KEY does not contain it
)

// Total returns the number of values that need the key.
func (k Key) Total() int {
	total := 0
	for _, n := range k.Values {
		total += n
	}
	return total
}

// Removable reports whether the key may be removed from SECRETS_KEY.
func (k Key) Removable() bool { return k.State == Old && k.Total() == 0 }

// Count counts the values that need each key: first for the keys in SECRETS_KEY, in order, and then
// for the missing keys, sorted by id. A value that needs two keys counts once for each key. Count
// reads one index entry per value. The function progress, if not nil, is called with the number of
// entries that were read. The counts may lack values that are added meanwhile.
func Count(ctx context.Context, values Values, box *secrets.Box, progress func(int)) ([]Key, error) {
	var keys []Key
	for n, keyID := range box.KeyIDs() {
		// The first key of the setting seals new values.
		state := Old
		if n == 0 {
			state = Current
		}
		keys = append(keys, Key{ID: keyID, State: state, Values: map[sealdb.Kind]int{}})
	}

	configured, read := len(keys), 0
	for _, kind := range sealdb.Kinds {
		// The values are read in pages, because the database may contain millions of them.
		for at := (sealdb.Value{}); ; {
			page, err := values.SealedValues(ctx, kind, at, pageSize)
			if err != nil {
				return nil, err
			}
			for _, value := range page {
				for keyID := range strings.SplitSeq(value.Keys, ",") {
					n := slices.IndexFunc(keys, func(k Key) bool { return k.ID == keyID })
					if n < 0 {
						n, keys = len(keys), append(keys, Key{ID: keyID, State: Missing, Values: map[sealdb.Kind]int{}})
					}
					keys[n].Values[kind]++
				}
			}
			if read += len(page); progress != nil {
				progress(read)
			}
			// A page that is not full is the last page.
			if len(page) < pageSize {
				break
			}
			at = page[len(page)-1]
		}
	}

	slices.SortFunc(keys[configured:], func(a, b Key) int { return strings.Compare(a.ID, b.ID) })
	return keys, nil
}
