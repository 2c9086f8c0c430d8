package latency

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestBucketsCoverEveryDurationOnce(t *testing.T) {
	t.Parallel()
	before := -1
	for ns := range uint64(1 << 16) {
		i := bucket(ns)
		if i != before && i != before+1 {
			t.Fatalf("%d ns goes to bucket %d after %d", ns, i, before)
		}
		before = i
	}
	for _, ns := range []uint64{1<<maxBits - 1, 1 << maxBits, 1 << 60} {
		if i := bucket(ns); i >= buckets || i < before {
			t.Errorf("%d ns goes to bucket %d of %d", ns, i, buckets)
		}
	}
}

func TestMiddleIsCloseToWhatWasRecorded(t *testing.T) {
	t.Parallel()
	for ns := uint64(1); ns < 1<<maxBits; ns += 1 + ns/37 {
		if got := float64(middle(bucket(ns))); got < float64(ns)*0.996 || got > float64(ns)*1.004 {
			t.Fatalf("%d ns is given back as %.0f", ns, got)
		}
	}
}

func TestQuantilesAgreeWithASortedList(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var h Histogram
	all := make([]time.Duration, 20_001)
	for i := range all {
		all[i] = time.Duration(random.ExpFloat64() * float64(3*time.Millisecond))
		h.Record(all[i])
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[int(q*float64(len(all)-1))]
		got := h.Quantile(q)
		if diff := (got - want).Abs(); float64(diff) > 0.005*float64(want)+2 {
			t.Errorf("quantile %v is %v, in the list %v", q, got, want)
		}
	}
	if h.Max() != all[len(all)-1] || h.Quantile(1) > h.Max() {
		t.Errorf("longest is %v, quantile 1 is %v, in the list %v", h.Max(), h.Quantile(1), all[len(all)-1])
	}
}

func TestEmptyHistogram(t *testing.T) {
	t.Parallel()
	var h Histogram
	if h.Quantile(0.99) != 0 || h.Mean() != 0 || h.Max() != 0 || h.Count() != 0 {
		t.Error("an empty histogram holds something")
	}
	h.Record(-time.Second)
	if h.Count() != 1 || h.Quantile(1) != 0 {
		t.Error("a negative duration is not counted as zero")
	}
}

func TestMergedAndSentHistogramsAreTheSame(t *testing.T) {
	t.Parallel()
	var one, other, both Histogram
	for i := range 1000 {
		d := time.Duration(i*i) * time.Microsecond
		if i%3 == 0 {
			one.Record(d)
		} else {
			other.Record(d)
		}
		both.Record(d)
	}
	one.Merge(&other)
	if one != both {
		t.Error("two halves do not make the whole")
	}
	raw, err := json.Marshal(&both)
	if err != nil {
		t.Fatal(err)
	}
	var sent Histogram
	if err := json.Unmarshal(raw, &sent); err != nil {
		t.Fatal(err)
	}
	if sent != both {
		t.Error("what was sent is not what arrived")
	}
	if err := json.Unmarshal([]byte(`{"buckets":[[999999,1]]}`), &sent); err == nil {
		t.Error("a bucket that does not exist was accepted")
	}
}
