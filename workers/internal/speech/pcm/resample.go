package pcm

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"
)

// rates lists the supported sample rates. The ratio of any two rates is a ratio of small integers.
var rates = []int{8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000}

const (
	// reach is the number of zero crossings of the filter on each side of its center. With this
	// number, the transition band is an eighth of the lower rate's Nyquist frequency.
	reach = 32
	// cutoff is the frequency at which the filter attenuates by half, relative to the lower rate's
	// Nyquist frequency. The transition band is symmetric around this frequency.
	cutoff = 0.92
	// shape is the parameter β of the Kaiser window. With this value, the stop band is attenuated
	// by 80 dB.
	shape = 8.0
)

// filter is a low-pass filter. It has one phase for each possible position of a new sample between
// two old ones. It does not change after newFilter, so all Resamplers of the same rates share it.
type filter struct {
	up, down int // ratio of the number of new samples to the number of old ones
	half     int // number of taps on each side of the position
	// phases contains the weights of the surrounding old samples for each phase.
	phases [][]float64
}

// filters caches the filters, whose computation is expensive.
var filters sync.Map // [2]int{from, to} → *filter

// filterFor returns the filter for two sample rates in Hz. It fails if a rate is not supported.
func filterFor(from, to int) (*filter, error) {
	if !slices.Contains(rates, from) || !slices.Contains(rates, to) {
		return nil, fmt.Errorf("resampling from %d to %d Hz: unsupported rate", from, to)
	}
	if f, ok := filters.Load([2]int{from, to}); ok {
		return f.(*filter), nil //nolint:forcetypeassert // nothing else is stored
	}
	f, _ := filters.LoadOrStore([2]int{from, to}, newFilter(from, to))
	return f.(*filter), nil //nolint:forcetypeassert // nothing else is stored
}

// newFilter computes the filter for two sample rates. The filter is a sinc function with a Kaiser
// window. If the rate is reduced, the filter is wider, because it must remove more frequencies.
func newFilter(from, to int) *filter {
	divisor := gcd(from, to)
	f := &filter{up: to / divisor, down: from / divisor}
	band := min(1, float64(to)/float64(from)) // width of the pass band, relative to the Nyquist frequency of the old rate
	f.half = int(math.Ceil(reach / band))

	f.phases = make([][]float64, f.up)
	for phase := range f.phases {
		taps, sum := make([]float64, 2*f.half), 0.0
		for n := range taps {
			at := float64(n-f.half+1) - float64(phase)/float64(f.up) // distance from the position of the new sample, in old samples
			taps[n] = sinc(at*band*cutoff) * kaiser(at/float64(f.half))
			sum += taps[n]
		}
		for n := range taps {
			taps[n] /= sum // makes the loudness equal in all phases
		}
		f.phases[phase] = taps
	}
	return f
}

// gcd returns the greatest common divisor.
func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// sinc returns sin(πx)/(πx), the ideal low-pass filter.
func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	return math.Sin(math.Pi*x) / (math.Pi * x)
}

// kaiser returns the value of the Kaiser window at x, from -1 to 1.
func kaiser(x float64) float64 {
	return bessel(shape*math.Sqrt(max(0, 1-x*x))) / bessel(shape)
}

// bessel returns the modified Bessel function of order 0, which it computes as a series.
func bessel(x float64) float64 {
	sum, term := 1.0, 1.0
	for n := 1.0; term > sum*1e-12; n++ {
		term *= (x / 2 / n) * (x / 2 / n)
		sum += term
	}
	return sum
}

// Resampler changes the sample rate of audio that arrives in pieces. It does not delay the audio or
// change its duration. It is used for one stream and is not safe for concurrent use.
type Resampler struct {
	filter *filter
	window []float64 // old samples that are still needed
	phase  int       // phase of the next new sample
	read   int64     // number of old samples received
	made   int64     // number of new samples returned

	odd []byte // first byte of an incomplete sample
}

// NewResampler creates a Resampler from one sample rate to another, in Hz. It fails if a sample
// rate is not supported.
func NewResampler(from, to int) (*Resampler, error) {
	f, err := filterFor(from, to)
	if err != nil {
		return nil, err
	}
	r := &Resampler{filter: f}
	r.window = make([]float64, f.half-1, 4*f.half+4096) // silence before the first sample
	return r, nil
}

// Append converts the next piece of audio and appends the result to b. A piece may end in the
// middle of a sample. The last samples are held back until the following samples arrive; see Flush.
func (r *Resampler) Append(b, piece []byte) []byte {
	if len(r.odd) == 1 && len(piece) > 0 {
		r.add([]byte{r.odd[0], piece[0]})
		r.odd, piece = r.odd[:0], piece[1:]
	}
	if len(piece)%2 == 1 {
		r.odd = append(r.odd, piece[len(piece)-1])
	}
	r.add(piece[:len(piece)&^1])
	return r.make(b, math.MaxInt64)
}

// Flush appends the remaining samples. It drops an incomplete sample at the end. The Resampler
// cannot be used afterwards.
func (r *Resampler) Flush(b []byte) []byte {
	r.window = append(r.window, make([]float64, r.filter.half+1)...) // silence after the last sample
	up, down := int64(r.filter.up), int64(r.filter.down)
	return r.make(b, (r.read*up+down-1)/down)
}

// add appends old samples to the window. The number of bytes must be even.
func (r *Resampler) add(samples []byte) {
	for n := 0; n+1 < len(samples); n += 2 {
		r.window = append(r.window, float64(int16(binary.LittleEndian.Uint16(samples[n:]))))
	}
	r.read += int64(len(samples) / 2)
}

// make appends the new samples for which all old samples have arrived, but not more than limit
// samples in total. It then removes the old samples that are no longer needed.
func (r *Resampler) make(b []byte, limit int64) []byte {
	at, width := 0, 2*r.filter.half
	for at+width <= len(r.window) && r.made < limit {
		sum := 0.0
		for n, tap := range r.filter.phases[r.phase] {
			sum += tap * r.window[at+n]
		}
		sample := int16(min(max(math.Round(sum), math.MinInt16), math.MaxInt16))
		b = binary.LittleEndian.AppendUint16(b, uint16(sample))
		r.made++
		r.phase += r.filter.down
		at += r.phase / r.filter.up
		r.phase %= r.filter.up
	}

	at = min(at, len(r.window))
	r.window = r.window[:copy(r.window, r.window[at:])]
	return b
}

// Resample changes the sample rate of complete audio. If the rates are equal, Resample returns the
// argument sound itself. Resample fails if a rate is not supported.
func Resample(sound []byte, from, to int) ([]byte, error) {
	if from == to {
		return sound, nil
	}
	r, err := NewResampler(from, to)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, 2*(len(sound)/2*r.filter.up/r.filter.down+1))
	return r.Flush(r.Append(out, sound)), nil
}
