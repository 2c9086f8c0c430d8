package activity

import "math"

const (
	floorParts      = 10 // parts of a quarter of a second each
	floorPart       = framesPerSecond / 4
	minFloor        = -72.0 // dB; no microphone is quieter
	maxInitialFloor = -55.0 // dB; upper limit while little has been received, because all of it may be speech
	initialFrames   = framesPerSecond / 2
	floorBias       = 1.0 // dB by which the minimum of noise is below its mean
	smoothing       = 0.8
)

// floor estimates the noise level: the minimum of the smoothed power over the last two and a half
// seconds. Speech has pauses or valleys in that time.
type floor struct {
	power  float64 // smoothed
	parts  [floorParts]float64
	least  float64 // minimum of the current part
	frames int
	known  float64 // estimated noise level in dB
}

func newFloor() floor {
	f := floor{least: math.Inf(1), known: maxInitialFloor}
	for i := range f.parts {
		f.parts[i] = math.Inf(1)
	}
	return f
}

func (f *floor) add(level float64) {
	power := math.Pow(10, level/10)
	if f.frames == 0 {
		f.power = power
	}
	f.power = smoothing*f.power + (1-smoothing)*power

	f.least = min(f.least, f.power)
	f.frames++

	least := f.least
	for _, part := range f.parts {
		least = min(least, part)
	}

	if f.frames%floorPart == 0 {
		f.parts[f.frames/floorPart%floorParts], f.least = f.least, math.Inf(1)
	}

	f.known = max(minFloor, 10*math.Log10(least)+floorBias)
	if f.frames < initialFrames {
		f.known = min(f.known, maxInitialFloor)
	}
}
