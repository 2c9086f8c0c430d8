package activity_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os/exec"
	"sync"
	"testing"

	"parley/workers/internal/voice/activity"
)

const rate = 24_000

// sound is audio whose samples are between -1 and 1.
type sound []float64

var spoken sync.Map

// speech returns the audio of a text that espeak-ng speaks, without silence at the beginning and
// the end.
func speech(tb testing.TB, voice, text string) sound {
	tb.Helper()
	say := func() sound {
		out, err := exec.CommandContext(tb.Context(), "espeak-ng", "-v", voice, "--stdout", text).Output()
		if err != nil {
			tb.Errorf("espeak-ng (package espeak-ng): %v", err)
			return nil
		}
		return trim(resample(out[44:], int(binary.LittleEndian.Uint32(out[24:]))))
	}
	once, _ := spoken.LoadOrStore(voice+" "+text, sync.OnceValue(say))
	made, _ := once.(func() sound)
	got := made()
	if got == nil {
		tb.FailNow()
	}
	return append(sound{}, got...)
}

// resample changes the sample rate by linear interpolation. This is sufficient to distinguish
// speech from noise.
func resample(pcm []byte, from int) sound {
	in := make(sound, len(pcm)/2)
	for i := range in {
		in[i] = float64(int16(binary.LittleEndian.Uint16(pcm[2*i:]))) / 32768
	}
	out := make(sound, (len(in)-1)*rate/from)
	for i := range out {
		at := float64(i) * float64(from) / rate
		n := int(at)
		out[i] = in[n] + (at-float64(n))*(in[n+1]-in[n])
	}
	return out
}

func trim(s sound) sound {
	loud := func(x float64) bool { return math.Abs(x) > 0.01 }
	from, to := 0, len(s)
	for from < to && !loud(s[from]) {
		from++
	}
	for to > from && !loud(s[to-1]) {
		to--
	}
	return s[from:to]
}

func silence(seconds float64) sound { return make(sound, int(seconds*rate)) }

func join(parts ...sound) sound {
	var all sound
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func (s sound) rms() float64 {
	var sum float64
	for _, x := range s {
		sum += x * x
	}
	return math.Sqrt(sum / float64(len(s)))
}

// scaled returns the sound with the given level, in dB relative to full scale.
func (s sound) scaled(db float64) sound {
	by := math.Pow(10, db/20) / s.rms()
	out := make(sound, len(s))
	for i, x := range s {
		out[i] = x * by
	}
	return out
}

func (s sound) plus(other sound) sound {
	out := append(sound{}, s...)
	for i := range out {
		out[i] += other[i%len(other)]
	}
	return out
}

// pcm converts the sound to PCM. It clips samples that are too loud.
func (s sound) pcm() []byte {
	out := make([]byte, 0, 2*len(s))
	for _, x := range s {
		out = binary.LittleEndian.AppendUint16(out, uint16(int16(math.Round(min(max(x, -1), 1)*32767))))
	}
	return out
}

func white(seconds float64, seed uint64) sound {
	r := rand.New(rand.NewPCG(seed, 1))
	return fill(seconds, func(int) float64 { return r.NormFloat64() })
}

// pink returns noise with equal power in each octave, down to about 20 Hz.
func pink(seconds float64, seed uint64) sound {
	r := rand.New(rand.NewPCG(seed, 2))
	var rows [10]float64
	return fill(seconds, func(i int) float64 {
		sum := r.NormFloat64()
		for n := range rows {
			if i%(1<<(n+1)) == 0 {
				rows[n] = r.NormFloat64()
			}
			sum += rows[n]
		}
		return sum
	})
}

// fan returns the sound of a fan: noise that is low-passed twice at about 300 Hz, and the tone of
// the rotating blades.
func fan(seconds float64, seed uint64) sound {
	r := rand.New(rand.NewPCG(seed, 3))
	var a, b float64
	return fill(seconds, func(i int) float64 {
		a += 0.075 * (r.NormFloat64() - a)
		b += 0.075 * (a - b)
		return b + 0.02*math.Sin(2*math.Pi*137*float64(i)/rate)
	})
}

func hum(seconds float64, mains float64) sound {
	return fill(seconds, func(i int) float64 {
		p := 2 * math.Pi * mains * float64(i) / rate
		return math.Sin(p) + 0.5*math.Sin(2*p+1) + 0.3*math.Sin(3*p+2) + 0.15*math.Sin(5*p)
	})
}

func tone(seconds, hertz float64) sound {
	return fill(seconds, func(i int) float64 { return math.Sin(2 * math.Pi * hertz * float64(i) / rate) })
}

func clicks(seconds float64, seed uint64) sound {
	r := rand.New(rand.NewPCG(seed, 4))
	out := silence(seconds)
	for at := 3000; at < len(out)-600; at += 3000 + r.IntN(9000) {
		for i := range 60 + r.IntN(500) {
			out[at+i] = r.NormFloat64() * math.Exp(-float64(i)/60) * 0.5
		}
	}
	return out
}

// hiss returns high-frequency noise, like a sibilant.
func hiss(seconds float64, seed uint64) sound {
	r := rand.New(rand.NewPCG(seed, 5))
	var before, further float64
	return fill(seconds, func(int) float64 {
		x := r.NormFloat64()
		y := x - 2*before + further
		before, further = x, before
		return y
	})
}

func fill(seconds float64, f func(i int) float64) sound {
	out := silence(seconds)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

var usual = activity.Settings{Threshold: 0.5, PrefixMS: 300, SilenceMS: 500}

func detect(d activity.Settings, s sound) []activity.Event {
	return activity.New(d, 0).Write(s.pcm())
}
