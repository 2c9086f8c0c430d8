package sealed

import (
	"context"
	"slices"
	"strings"

	"parley/shared/secrets"
	"parley/shared/store/pg"
	"parley/shared/store/sealdb"
)

const (
	batchRows = 16 // maximum number of values that one transaction reseals; a delivery's body may have 1 MiB
	// maximum number of values that are listed at a time
	listedRows = 500
	maxPasses  = 20 // maximum number of passes per kind; all except the first handle values that were locked or added meanwhile
)

// ResealStore is the interface for resealing values. sealdb.Store implements it.
type ResealStore interface {
	Values
	Reseal(ctx context.Context, org string, values []sealdb.Value, by sealdb.Resealer) ([]sealdb.Resealed, error)
}

// Outcome is the result of Reseal.
type Outcome struct {
	Resealed int
	Unopened int // number of values that cannot be opened with any key; they are unchanged
	Busy     int // number of values that were locked by other transactions at every try
}

// Reseal seals every value of the database with the box's current key while the service runs. Each
// batch is a separate transaction, so Reseal can be interrupted and started again. It calls the
// function unopened for each value that cannot be opened with any key, and the function progress
// after each batch.
func Reseal(
	ctx context.Context, values ResealStore, box *secrets.Box, unopened func(sealdb.Value), progress func(Outcome),
) (Outcome, error) {
	r := &resealRun{values: values, by: resealer{box, box.KeyIDs()[0]}, unopened: unopened, progress: progress}
	for _, kind := range sealdb.Kinds {
		if err := r.kind(ctx, kind); err != nil {
			return r.outcome, err
		}
	}
	return r.outcome, nil
}

// resealRun is the state of one call of Reseal.
type resealRun struct {
	values   ResealStore
	by       resealer
	unopened func(sealdb.Value)
	progress func(Outcome)
	outcome  Outcome
	again    bool // true after the first pass, which counts the values that cannot be opened
}

// kind reseals the values of a kind until all values that can be opened are sealed with the current
// key. A resealed value moves to another position in the list, so a pass sees each value once.
// Further passes handle values that were locked or added in the meantime.
func (r *resealRun) kind(ctx context.Context, kind sealdb.Kind) error {
	busy := 0
	for pass := range maxPasses {
		keys, err := r.values.SealedKeys(ctx, kind)
		if err != nil {
			return err
		}
		before := r.outcome.Resealed
		r.again, busy = pass > 0, 0
		for _, combination := range keys {
			// Values that need only the current key are already resealed. Values with an unknown
			// key cannot be resealed, so only the first pass reports them.
			if combination == r.by.current || r.again && !r.by.has(combination) {
				continue
			}
			n, err := r.combination(ctx, kind, combination)
			if err != nil {
				return err
			}
			busy += n
		}
		// The kind is finished if a pass resealed nothing and found no locked value.
		if busy == 0 && r.outcome.Resealed == before {
			break
		}
	}

	r.outcome.Busy += busy
	return nil
}

// combination reseals the values that need a given combination of keys, in pages. It returns the
// number of values that other transactions had locked.
func (r *resealRun) combination(ctx context.Context, kind sealdb.Kind, keys string) (busy int, err error) {
	for at := (sealdb.Value{Keys: keys}); ; {
		page, err := r.values.SealedValues(ctx, kind, at, listedRows)
		if err != nil {
			return busy, err
		}
		listed := len(page)
		// The page may end with values that need other keys. These values do not belong to this
		// combination.
		page = slices.DeleteFunc(page, func(v sealdb.Value) bool { return v.Keys != keys })
		for batch := range batches(page) {
			n, err := r.batch(ctx, batch)
			if err != nil {
				return busy, err
			}
			busy += n
		}
		if len(page) < listed || listed < listedRows {
			return busy, nil
		}
		at = page[len(page)-1]
	}
}

// batches splits a page into batches. Each batch is for one transaction and contains values of a
// single organization.
func batches(page []sealdb.Value) func(yield func([]sealdb.Value) bool) {
	return func(yield func([]sealdb.Value) bool) {
		for len(page) > 0 {
			n := 1
			// A transaction may write rows of only one organization. Each value of the kind
			// KindContent has its own transaction, because the value may be large.
			for n < min(len(page), batchRows) && page[n].OrganizationID == page[0].OrganizationID && page[0].Kind != sealdb.KindContent {
				n++
			}
			if !yield(page[:n]) {
				return
			}
			page = page[n:]
		}
	}
}

// batch reseals the values in a batch, and returns the number of values that were locked. If a
// value is locked, it tries each value separately.
func (r *resealRun) batch(ctx context.Context, batch []sealdb.Value) (busy int, err error) {
	done, err := r.values.Reseal(ctx, batch[0].OrganizationID, batch, r.by)
	if pg.IsLocked(err) {
		// The next pass tries this value again.
		if len(batch) == 1 {
			return 1, nil
		}
		for i := range batch { // each value is tried separately, so that a locked row does not block the other rows
			n, err := r.batch(ctx, batch[i:i+1])
			if err != nil {
				return busy, err
			}
			busy += n
		}
		return busy, nil
	}

	if err != nil {
		return 0, err
	}

	for _, value := range done {
		switch {
		case value.Err == nil:
			r.outcome.Resealed++
		case !r.again:
			r.outcome.Unopened++
			r.unopened(value.Value)
		}
	}

	r.progress(r.outcome)
	return 0, nil
}

// resealer opens values with any key of a box and seals them with the current key. It implements
// sealdb.Resealer.
type resealer struct {
	box     *secrets.Box
	current string
}

// has reports whether the box has all keys in a combination.
func (r resealer) has(combination string) bool {
	known := r.box.KeyIDs()
	for keyID := range strings.SplitSeq(combination, ",") {
		if !slices.Contains(known, keyID) {
			return false
		}
	}
	return true
}

// location returns the text that identifies where the database has a sealed value. The value
// can be opened only with this text.
func location(kind sealdb.Kind, org, id string) string {
	switch kind {
	case sealdb.KindWidget:
		return secrets.WidgetIdentity(org, id)
	case sealdb.KindHook:
		return secrets.Hook(org, id)
	case sealdb.KindNotification:
		return secrets.NotificationEndpoint(org, id)
	default:
		return secrets.AgentHeaders(org, id)
	}
}

// ResealText opens a sealed text and seals it with the current key. A text that was already sealed
// with the current key is returned unchanged.
func (r resealer) ResealText(kind sealdb.Kind, org, id, sealed string) (string, error) {
	if secrets.KeyID(sealed) == r.current {
		return sealed, nil
	}
	at := location(kind, org, id)
	plain, err := r.box.Open(sealed, at)
	if err != nil {
		return "", sealdb.ErrUnopened
	}
	return r.box.Seal(plain, at), nil
}

// ResealBytes is like ResealText, for binary values.
func (r resealer) ResealBytes(sealed, associated []byte) ([]byte, error) {
	if secrets.KeyIDOfBytes(sealed) == r.current {
		return sealed, nil
	}
	plain, err := r.box.OpenBytes(sealed, associated)
	if err != nil {
		return nil, sealdb.ErrUnopened
	}
	return r.box.SealBytes(plain, associated), nil
}
