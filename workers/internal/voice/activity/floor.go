package activity

import "math"

const (
	floorParts     = 10 // of a quarter of a second
	floorPart      = framesPerSecond / 4
	floorLeast     = -72.0 // dB: no microphone is as quiet
	floorUnknown   = -55.0 // dB: at most this while little was heard, which may all be speech
	floorUnknownIn = framesPerSecond / 2
	floorBias      = 1.0 // dB that the least of noise lies below the noise
	smoothing      = 0.8
)

// floor follows the noise: the least power, smoothed, of the last two and a half seconds. Speech, even without pauses, has
// its valleys in that time.
type floor struct {
	power  float64 // smoothed
	parts  [floorParts]float64
	least  float64 // of the part that is not complete
	frames int
	known  float64 // dB
}

func newFloor() floor {
	f := floor{least: math.Inf(1), known: floorUnknown}
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
	f.known = max(floorLeast, 10*math.Log10(least)+floorBias)
	if f.frames < floorUnknownIn {
		f.known = min(f.known, floorUnknown)
	}
}
