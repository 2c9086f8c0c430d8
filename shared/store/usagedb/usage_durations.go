package usagedb

import (
	"database/sql"
	"maps"
	"math"
	"slices"
)

// bucketGrowth is the ratio of the upper bounds of two consecutive buckets of the
// schema's took_bucket.
const bucketGrowth = 1.05

// bucketMiddle returns the duration that is assumed for the runs in a bucket, in milliseconds.
// Their true durations differ from it by at most 2.5 %.
func bucketMiddle(bucket int) float64 {
	if bucket <= 1 {
		return 0 // less than 1 ms
	}
	return math.Pow(bucketGrowth, float64(bucket)-1.5)
}

// durationHistogram is a histogram of durations, by bucket. Merging two histograms only adds
// numbers, so removed runs need no durations of their own.
type durationHistogram map[int]*bucketCount

// bucketCount contains the number of runs in a bucket and the sum of their durations.
type bucketCount struct {
	n  int64
	ms float64 // sum of the durations
}

// add adds n runs to a bucket. ms is the sum of their durations, if known.
func (t durationHistogram) add(bucket int, n int64, ms sql.NullInt64) {
	// An empty entry would make the method percentile divide by zero.
	if n == 0 {
		return
	}
	if t[bucket] == nil {
		t[bucket] = &bucketCount{}
	}
	t[bucket].n += n
	if ms.Valid {
		t[bucket].ms += float64(ms.Int64)
	} else {
		t[bucket].ms += float64(n) * bucketMiddle(bucket)
	}
}

// percentile returns a duration in milliseconds that the given percentage of the runs did not
// exceed. It is the mean duration of the bucket that contains this percentile, rounded to a
// millisecond. percentile returns nil if there are no runs.
func (t durationHistogram) percentile(percent int64) *int64 {
	var all, until int64
	for _, of := range t {
		all += of.n
	}

	for _, bucket := range slices.Sorted(maps.Keys(t)) {
		of := t[bucket]
		// The buckets are visited in the order of their durations.
		if until += of.n; until*100 >= all*percent {
			ms := int64(math.Round(of.ms / float64(of.n)))
			return &ms
		}
	}
	return nil
}
