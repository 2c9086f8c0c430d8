package activity

import "math"

const (
	decimation = 6 // the pitch is looked for at 4 kHz
	pitchRate  = rate / decimation
	longestLag = pitchRate / 70 // voices are between 70 and 400 Hz
	leastLag   = pitchRate / 400
	pitchSpan  = pitchRate / 33 // 40 ms are compared
	pitchKept  = pitchSpan + longestLag

	silent = -100.0 // dB: less is not told apart
)

// measured is what is known of a frame.
type measured struct {
	level     float64 // dB below full scale, in the band of speech
	crossings int     // of zero, a second
}

// meter takes samples in, and measures each frame of them.
type meter struct {
	begun            bool
	high, top, pitch biquad
	energy           float64
	crossings        int
	negative         bool
	kept             [2 * pitchKept]float64 // a ring of what the pitch is looked for in, twice over so that its end is in one piece
	keptAt           int
	every            int
}

func newMeter() *meter {
	return &meter{high: highPass(120), top: lowPass(3800), pitch: lowPass(900)}
}

func (m *meter) add(sample float64) {
	if !m.begun {
		m.begun = true
		m.pitch.settle(m.top.settle(m.high.settle(sample)))
	}
	y := m.top.next(m.high.next(sample))
	m.energy += y * y
	// What is weaker than the least bit crosses nothing.
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

// frame gives what the samples since the last frame were.
func (m *meter) frame() measured {
	got := measured{level: silent, crossings: m.crossings * framesPerSecond}
	if power := m.energy / frameSamples; power > 0 {
		got.level = max(silent, 10*math.Log10(power))
	}
	m.energy, m.crossings = 0, 0
	return got
}

// periodicity tells how much the last 40 ms repeat at the pitch of a voice, from 0 to 1.
func (m *meter) periodicity() float64 {
	all := m.kept[m.keptAt : m.keptAt+pitchKept]
	last := all[longestLag:]
	var power float64
	for _, x := range last {
		power += x * x
	}
	var best float64
	for lag := leastLag; lag <= longestLag; lag++ {
		before := all[longestLag-lag : longestLag-lag+pitchSpan]
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
