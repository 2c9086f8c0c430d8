package activity

import "math"

// biquad is a second-order filter.
type biquad struct {
	b0, b1, b2, a1, a2 float64
	z1, z2             float64
}

// lowPass returns a second-order low-pass filter with the given cutoff frequency. Like highPass, it
// is a Butterworth filter, which has no ripple in the pass band.
func lowPass(hertz float64) biquad {
	w := 2 * math.Pi * hertz / rate
	alpha, c := math.Sin(w)/math.Sqrt2, math.Cos(w)
	a0 := 1 + alpha
	return biquad{b0: (1 - c) / 2 / a0, b1: (1 - c) / a0, b2: (1 - c) / 2 / a0, a1: -2 * c / a0, a2: (1 - alpha) / a0}
}

// highPass returns a second-order high-pass filter with the given cutoff frequency.
func highPass(hertz float64) biquad {
	w := 2 * math.Pi * hertz / rate
	alpha, c := math.Sin(w)/math.Sqrt2, math.Cos(w)
	a0 := 1 + alpha
	return biquad{b0: (1 + c) / 2 / a0, b1: -(1 + c) / a0, b2: (1 + c) / 2 / a0, a1: -2 * c / a0, a2: (1 - alpha) / a0}
}

// next returns the output for the next sample.
func (f *biquad) next(x float64) float64 {
	y := f.b0*x + f.z1
	f.z1 = f.b1*x - f.a1*y + f.z2
	f.z2 = f.b2*x - f.a2*y
	return y
}

// settle sets the filter to the state that it reaches after a long constant input x. Otherwise,
// audio with a constant offset would seem to begin with a step.
func (f *biquad) settle(x float64) float64 {
	y := x * (f.b0 + f.b1 + f.b2) / (1 + f.a1 + f.a2)
	f.z2 = f.b2*x - f.a2*y
	f.z1 = f.b1*x - f.a1*y + f.z2
	return y
}
