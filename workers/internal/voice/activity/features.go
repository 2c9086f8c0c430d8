package activity

import "math"

const (
	decimation = 6 // pitch is detected at 4 kHz
	pitchRate  = rate / decimation
	maxLag     = pitchRate / 70 // the pitch of a voice is between 70 and 400 Hz
	minLag     = pitchRate / 400
	pitchSpan  = pitchRate / 33 // length of the compared segments, which is 30 ms
	pitchKept  = pitchSpan + maxLag

	silent = -100.0 // dB; lower levels are treated as this level
)

// measurement contains the measured properties of one frame.
type measurement struct {
	level     float64 // dB relative to full scale, in the frequency band of speech
	crossings int     // number of zero crossings per second
}

// meter measures the frames of a stream of samples.
type meter struct {
	begun            bool
	high, top, pitch biquad
	energy           float64
	crossings        int
	negative         bool
	kept             [2 * pitchKept]float64 // ring buffer of the low-pass signal; written twice, so that the latest part is contiguous
	keptAt           int
	every            int
}

// newMeter returns a meter for the frequency band of speech, 120 to 3800 Hz. It searches for a
// pitch in the signal below 900 Hz.
func newMeter() *meter {
	return &meter{high: highPass(120), top: lowPass(3800), pitch: lowPass(900)}
}

// add processes one sample in the range from -1 to 1.
func (m *meter) add(sample float64) {
	// The filters are settled at the first sample. Otherwise a constant offset would look like a
	// loud click.
	if !m.begun {
		m.begun = true
		m.pitch.settle(m.top.settle(m.high.settle(sample)))
	}

	y := m.top.next(m.high.next(sample))
	m.energy += y * y
	// A signal weaker than the least significant bit is not considered to cross zero.
	if m.negative && y > leastBit || !m.negative && y < -leastBit {
		m.negative = !m.negative
		m.crossings++
	}

	low := m.pitch.next(y)
	if m.every++; m.every == decimation {
		m.every = 0
		m.kept[m.keptAt], m.kept[m.keptAt+pitchKept] = low, low
		m.keptAt = (m.keptAt + 1) % pitchKept
	}
}

// frame returns the measurement of the samples since the last call.
func (m *meter) frame() measurement {
	got := measurement{level: silent, crossings: m.crossings * framesPerSecond}
	if power := m.energy / frameSamples; power > 0 {
		got.level = max(silent, 10*math.Log10(power))
	}
	m.energy, m.crossings = 0, 0
	return got
}

// periodicity returns a value from 0 to 1 that states how exactly the latest samples repeat at the
// pitch of a voice. It is the highest normalized correlation with an earlier segment.
func (m *meter) periodicity() float64 {
	all := m.kept[m.keptAt : m.keptAt+pitchKept]
	last := all[maxLag:]
	var power float64
	for _, x := range last {
		power += x * x
	}

	// The lag with the highest correlation is the period of the voice. Negative correlations are
	// ignored.
	var best float64
	for lag := minLag; lag <= maxLag; lag++ {
		before := all[maxLag-lag : maxLag-lag+pitchSpan]
		var product, powerBefore float64
		for i, x := range last {
			y := before[i]
			product += x * y
			powerBefore += y * y
		}
		if product > 0 && product*product > best*power*powerBefore {
			best = product * product / (power * powerBefore)
		}
	}
	return math.Sqrt(best)
}
