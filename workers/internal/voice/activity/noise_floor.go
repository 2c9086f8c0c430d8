package activity

import "math"

const (
	floorParts      = 10 // number of parts, each a quarter of a second long
	floorPart       = framesPerSecond / 4
	minFloor        = -72.0 // in dB; real microphones have more noise
	maxInitialFloor = -55.0 // in dB; the upper limit at the beginning, when all audio so far may be speech
	initialFrames   = framesPerSecond / 2
	floorBias       = 1.0 // dB by which the minimum of noise is lower than its mean
	smoothing       = 0.8
)

// floor estimates the level of the noise: the minimum of the smoothed power in the last two and a
// half seconds, because speech has pauses in that time.
type floor struct {
	power  float64 // smoothed power
	parts  [floorParts]float64
	least  float64 // minimum of the current part
	frames int
	known  float64 // estimated noise level in dB
}

// newFloor returns a floor without any measurement. Until enough audio is measured, the estimate is
// maxInitialFloor.
func newFloor() floor {
	f := floor{least: math.Inf(1), known: maxInitialFloor}
	for i := range f.parts {
		f.parts[i] = math.Inf(1)
	}
	return f
}

// add processes the level of one frame, in dB.
func (f *floor) add(level float64) {
	power := math.Pow(10, level/10)
	if f.frames == 0 {
		f.power = power
	}
	f.power = smoothing*f.power + (1-smoothing)*power

	f.least = min(f.least, f.power)
	f.frames++

	// The minimum over the last parts is the noise, because speech pauses in that time.
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
