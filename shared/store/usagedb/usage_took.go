package usagedb

import (
	"database/sql"
	"maps"
	"math"
	"slices"
)

// bucketGrowth is by how much each bucket of took_bucket, of the schema, reaches further than the one before.
const bucketGrowth = 1.05

// bucketMiddle is about what a run of a bucket took, in milliseconds: by at most 2.5 % more or less.
func bucketMiddle(bucket int) float64 {
	if bucket <= 1 {
		return 0 // less than one
	}
	return math.Pow(bucketGrowth, float64(bucket)-1.5)
}

// tooks says of each bucket how many runs took about as long.
type tooks map[int]*tally

type tally struct {
	n  int64
	ms float64 // all of them together
}

// add counts n more runs, of which it is known what they took together, or only their bucket.
func (t tooks) add(bucket int, n int64, ms sql.NullInt64) {
	if n == 0 {
		return
	}
	if t[bucket] == nil {
		t[bucket] = &tally{}
	}
	t[bucket].n += n
	if ms.Valid {
		t[bucket].ms += float64(ms.Int64)
	} else {
		t[bucket].ms += float64(n) * bucketMiddle(bucket)
	}
}

// percentile gives how long so many in a hundred runs took at most, in milliseconds: the mean of the bucket that this one is in. It
// is nil when there are none.
func (t tooks) percentile(percent int64) *int64 {
	var all, until int64
	for _, of := range t {
		all += of.n
	}
	for _, bucket := range slices.Sorted(maps.Keys(t)) {
		of := t[bucket]
		if until += of.n; until*100 >= all*percent {
			ms := int64(math.Round(of.ms / float64(of.n)))
			return &ms
		}
	}
	return nil
}
