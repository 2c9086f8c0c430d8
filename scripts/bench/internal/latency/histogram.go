package latency

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"time"
)

const (
	subBits = 8 // durations of subBits bits and fewer are counted exactly
	half    = 1 << (subBits - 1)
	maxBits = 37 // 137 s; longer ones are counted as that
	buckets = (maxBits-subBits+2)*half + 1
)

// Histogram counts durations; the zero value is empty. It is for one goroutine.
type Histogram struct {
	counts [buckets]uint64
	total  uint64
	sum    time.Duration
	max    time.Duration
}

// Record counts one duration; a negative one counts as zero.
func (h *Histogram) Record(d time.Duration) {
	d = max(d, 0)
	h.counts[bucket(uint64(d))]++
	h.total++
	h.sum += d
	h.max = max(h.max, d)
}

// Merge adds what other has counted.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
	h.sum += other.sum
	h.max = max(h.max, other.max)
}

// Count is how many durations were recorded.
func (h *Histogram) Count() int64 { return int64(h.total) }

// Mean is the exact mean, 0 when nothing was recorded.
func (h *Histogram) Mean() time.Duration {
	if h.total == 0 {
		return 0
	}
	return h.sum / time.Duration(h.total)
}

// Max is the longest duration, exactly.
func (h *Histogram) Max() time.Duration { return h.max }

// Quantile is the duration that a share q (0 to 1) of all is at most, within 0.4 %; 0 when nothing was recorded.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	rank := max(uint64(math.Ceil(q*float64(h.total))), 1)
	var seen uint64
	for i, n := range h.counts {
		if seen += n; seen >= rank {
			return min(middle(i), h.max)
		}
	}
	return h.max
}

// bucket is the place of a duration in nanoseconds: exact below 2^subBits, then half buckets a power of two.
func bucket(ns uint64) int {
	shift := bits.Len64(ns) - subBits
	if shift <= 0 {
		return int(ns)
	}
	if shift > maxBits-subBits {
		return buckets - 1
	}
	return shift*half + int(ns>>shift)
}

// middle is the middle of a bucket's durations.
func middle(i int) time.Duration {
	if i < 2*half {
		return time.Duration(i)
	}
	shift := i/half - 1
	low := uint64(i-shift*half) << shift
	return time.Duration(low + 1<<shift/2)
}

// wire is a histogram as JSON: only the buckets that counted something, as pairs of place and count.
type wire struct {
	Buckets [][2]uint64   `json:"buckets"`
	Sum     time.Duration `json:"sumNs"`
	Max     time.Duration `json:"maxNs"`
}

// MarshalJSON writes the buckets that are not empty.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	out := wire{Buckets: [][2]uint64{}, Sum: h.sum, Max: h.max}
	for i, n := range h.counts {
		if n > 0 {
			out.Buckets = append(out.Buckets, [2]uint64{uint64(i), n})
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON replaces the histogram by one that MarshalJSON wrote.
func (h *Histogram) UnmarshalJSON(raw []byte) error {
	var in wire
	if err := json.Unmarshal(raw, &in); err != nil {
		return fmt.Errorf("reading histogram: %w", err)
	}
	*h = Histogram{sum: in.Sum, max: in.Max}
	for _, pair := range in.Buckets {
		if pair[0] >= buckets {
			return fmt.Errorf("reading histogram: no bucket %d", pair[0])
		}
		h.counts[pair[0]] += pair[1]
		h.total += pair[1]
	}
	return nil
}
