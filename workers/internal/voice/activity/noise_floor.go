package activity

import "math"

const (
	floorParts      = 10 // number of parts; each is a quarter of a second long
	floorPart       = framesPerSecond / 4
	minFloor        = -72.0 // dB; real microphones have more noise
	maxInitialFloor = -55.0 // dB; upper limit at the beginning, when all audio may be speech
	initialFrames   = framesPerSecond / 2
	floorBias       = 1.0 // dB by which the minimum of noise is below its mean
	smoothing       = 0.8
)

// floor estimates the level of the noise. The estimate is the minimum of the smoothed power during
// the last two and a half seconds, because speech pauses in that time.
type floor struct {
	power  float64 // smoothed power
	parts  [floorParts]float64
	least  float64 // minimum of the current part
	frames int
	known  float64 // estimated noise level in dB
}

// newFloor returns a floor without measurements. Until enough audio has been measured, the estimate
// is at most maxInitialFloor.
func newFloor() floor {
	f := floor{least: math.Inf(1), known: maxInitialFloor}
	for i := range f.parts {
		f.parts[i] = math.Inf(1)
	}
	return f
}

// add processes the level of a frame in dB.
func (f *floor) add(level float64) {
	power := math.Pow(10, level/10)
	if f.frames == 0 {
		f.power = power
	}
	f.power = smoothing*f.power + (1-smoothing)*power

	f.least = min(f.least, f.power)
	f.frames++

	// Speech always pauses within the measured time, so the minimum of all parts is the level of
	// the noise.
	least := f.least
	for _, part := range f.parts {
		least = min(least, part)
	}

	// A complete part replaces the oldest part.
	if f.frames%floorPart == 0 {
		f.parts[f.frames/floorPart%floorParts], f.least = f.least, math.Inf(1)
	}

	f.known = max(minFloor, 10*math.Log10(least)+floorBias)
	if f.frames < initialFrames {
		f.known = min(f.known, maxInitialFloor)
	}
}
