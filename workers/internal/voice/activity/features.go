package activity

import "math"

const (
	decimation = 6 // pitch is detected at 4 kHz
	pitchRate  = rate / decimation
	maxLag     = pitchRate / 70 // the pitch of voices is 70 to 400 Hz
	minLag     = pitchRate / 400
	pitchSpan  = pitchRate / 33 // compared segments are 30 ms long
	pitchKept  = pitchSpan + maxLag

	silent = -100.0 // in dB; lower levels count as this level
)

// measurement is the measurement of one frame.
type measurement struct {
	level     float64 // in dB relative to full scale, in the frequency band of speech
	crossings int     // zero crossings per second
}

// meter measures the frames of a stream of samples.
type meter struct {
	begun            bool
	high, top, pitch biquad
	energy           float64
	crossings        int
	negative         bool
	kept             [2 * pitchKept]float64 // ring buffer of the low-pass signal, written twice so that its latest part is contiguous
	keptAt           int
	every            int
}

// newMeter returns a meter for the band of speech, 120 to 3800 Hz. It looks for a pitch below 900
// Hz.
func newMeter() *meter {
	return &meter{high: highPass(120), top: lowPass(3800), pitch: lowPass(900)}
}

// add processes one sample in the range from -1 to 1.
func (m *meter) add(sample float64) {
	// Settle the filters at the first sample. Otherwise a constant offset would look like a loud
	// click.
	if !m.begun {
		m.begun = true
		m.pitch.settle(m.top.settle(m.high.settle(sample)))
	}

	y := m.top.next(m.high.next(sample))
	m.energy += y * y
	// Signals weaker than the least significant bit do not count as crossing zero.
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

// periodicity returns a value from 0 to 1 that says how exactly the latest samples repeat at the
// pitch of a voice.
func (m *meter) periodicity() float64 {
	all := m.kept[m.keptAt : m.keptAt+pitchKept]
	last := all[maxLag:]
	var power float64
	for _, x := range last {
		power += x * x
	}

	// The lag with the best correlation is the length of one period of the voice. Signals in
	// opposite phase do not count.
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
