package pcm_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"parley/workers/internal/speech/pcm"
)

const loud = 16_000.0

func tone(hz float64, rate, samples int) []byte {
	b := make([]byte, 0, 2*samples)
	for n := range samples {
		v := int16(math.Round(loud * math.Sin(2*math.Pi*hz*float64(n)/float64(rate))))
		b = binary.LittleEndian.AppendUint16(b, uint16(v))
	}
	return b
}

func samplesFor(b []byte) []float64 {
	out := make([]float64, len(b)/2)
	for n := range out {
		out[n] = float64(int16(binary.LittleEndian.Uint16(b[2*n:])))
	}
	return out
}

// level returns the level of the middle part of a sound, in dB relative to the level of a tone.
func level(sound []float64) float64 {
	middle := sound[len(sound)/4 : len(sound)*3/4]
	sum := 0.0
	for _, v := range middle {
		sum += v * v
	}
	return 10 * math.Log10(max(sum/float64(len(middle)), 1e-9)/(loud*loud/2))
}

func resampled(t *testing.T, sound []byte, from, to int) []byte {
	t.Helper()
	out, err := pcm.Resample(sound, from, to)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTonesInThePassBandAreUnchanged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ from, to int }{{24_000, 16_000}, {16_000, 24_000}, {22_050, 24_000}, {24_000, 22_050}, {48_000, 24_000}, {8_000, 24_000}} {
		for _, part := range []float64{0.01, 0.1, 0.4, 0.8} {
			hz := math.Round(part * float64(min(c.from, c.to)) / 2)
			t.Run(fmt.Sprintf("%d to %d at %.0f Hz", c.from, c.to, hz), func(t *testing.T) {
				t.Parallel()
				got := samplesFor(resampled(t, tone(hz, c.from, c.from), c.from, c.to))
				want := samplesFor(tone(hz, c.to, c.to))
				if len(got) != len(want) {
					t.Fatalf("%d samples became %d, want %d", c.from, len(got), len(want))
				}
				for n := range got {
					got[n] -= want[n]
				}
				if difference := level(got); difference > -55 { // difference between the result and the same tone at the new rate
					t.Errorf("added distortion: %.1f dB", difference)
				}
			})
		}
	}
}

func TestTonesInTheStopBandAreRemoved(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, to int
		hz       float64
	}{
		{24_000, 16_000, 8_400},
		{24_000, 16_000, 10_000},
		{24_000, 16_000, 11_900},
		{22_050, 16_000, 9_000},
		{48_000, 24_000, 13_000},
		{48_000, 16_000, 23_000},
		{44_100, 8_000, 6_000},
	} {
		if got := level(samplesFor(resampled(t, tone(c.hz, c.from, c.from), c.from, c.to))); got > -70 {
			t.Errorf("%.0f Hz from %d to %d left %.1f dB", c.hz, c.from, c.to, got)
		}
	}
}

// Without the filter, upsampling would add a mirror image of a tone at a higher frequency.
func TestNoMirrorImageIsHeard(t *testing.T) {
	t.Parallel()
	const hz = 7_000
	got := samplesFor(resampled(t, tone(hz, 22_050, 22_050), 22_050, 24_000))
	spoken, mirror := amplitude(got, hz, 24_000), amplitude(got, 24_000-(22_050-hz), 24_000)
	if db := 20 * math.Log10(mirror/spoken); db > -70 {
		t.Errorf("the mirror image is %.1f dB", db)
	}
}

func amplitude(sound []float64, hz, rate float64) float64 {
	var re, im float64
	for n, v := range sound {
		window := 0.5 - 0.5*math.Cos(2*math.Pi*float64(n)/float64(len(sound)))
		sin, cos := math.Sincos(2 * math.Pi * hz * float64(n) / rate)
		re, im = re+window*v*cos, im+window*v*sin
	}
	return math.Hypot(re, im)
}

func TestPiecesMakeWhatTheWholeMakes(t *testing.T) {
	t.Parallel()
	sound := tone(440, 22_050, 10_007)
	whole := resampled(t, sound, 22_050, 24_000)
	for _, size := range []int{1, 2, 3, 777, 4096, 1 << 20} {
		r, err := pcm.NewResampler(22_050, 24_000)
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		for at := 0; at < len(sound); at += size {
			got = r.Append(got, sound[at:min(at+size, len(sound))])
		}
		if got = r.Flush(got); !bytes.Equal(got, whole) {
			t.Errorf("pieces of %d bytes make %d bytes, the whole %d", size, len(got), len(whole))
		}
	}
}

func TestResampleKeepsLengths(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ samples, from, to, want int }{
		{0, 24_000, 16_000, 0},
		{1, 24_000, 16_000, 1},
		{3, 24_000, 16_000, 2},
		{2, 16_000, 24_000, 3},
		{22_050, 22_050, 24_000, 24_000},
		{5, 24_000, 24_000, 5},
	} {
		if got := len(resampled(t, make([]byte, 2*c.samples), c.from, c.to)) / 2; got != c.want {
			t.Errorf("%d samples from %d to %d became %d, want %d", c.samples, c.from, c.to, got, c.want)
		}
	}
	if got := resampled(t, []byte{1, 2, 3}, 24_000, 16_000); len(got) != 2 {
		t.Errorf("a sample and a half became %d bytes, want 2", len(got))
	}
}

func TestTheLoudestSoundDoesNotOverflow(t *testing.T) {
	t.Parallel()
	square := make([]byte, 0, 8_000)
	for n := range 4_000 {
		v := int16(math.MaxInt16)
		if n/40%2 == 1 {
			v = math.MinInt16
		}
		square = binary.LittleEndian.AppendUint16(square, uint16(v))
	}
	got, flips := samplesFor(resampled(t, square, 16_000, 24_000)), 0
	for n := 1; n < len(got); n++ {
		if got[n]*got[n-1] < 0 {
			flips++
		}
	}
	if flips < 98 || flips > 102 { // the sign changes once every 40 samples, and there are 4,000 samples
		t.Errorf("the sound changes its sign %d times, want about 99", flips)
	}
}

func TestUnusualRatesAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]int{{0, 24_000}, {-1, 24_000}, {22_051, 24_000}, {24_000, 1}} {
		if _, err := pcm.NewResampler(c[0], c[1]); err == nil {
			t.Errorf("from %d to %d Hz was taken", c[0], c[1])
		}
		if _, err := pcm.Resample([]byte{0, 0}, c[0], c[1]); err == nil {
			t.Errorf("sound from %d to %d Hz was taken", c[0], c[1])
		}
	}
}

func TestWAVIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	sound := tone(440, 16_000, 100)
	r := bytes.NewReader(pcm.AppendWAV([]byte("before"), sound, 16_000)[6:])
	rate, err := pcm.ReadWAV(iotest.OneByteReader(r))
	rest := make([]byte, r.Len())
	_, _ = r.Read(rest)
	if err != nil || rate != 16_000 || !bytes.Equal(rest, sound) {
		t.Errorf("rate %d, %d bytes, %v", rate, len(rest), err)
	}
	if size := binary.LittleEndian.Uint32(pcm.AppendWAV(nil, sound, 16_000)[4:]); size != uint32(36+len(sound)) {
		t.Errorf("the header says %d bytes follow, want %d", size, 36+len(sound))
	}
}

func TestInvalidWAVHeaders(t *testing.T) {
	t.Parallel()
	good := string(pcm.AppendWAV(nil, []byte{1, 2}, 22_050))
	format := good[12:36]
	endless := strings.Replace(good, "\x02\x00\x00\x00\x01\x02", "\x00\xf0\xff\x7f\x01\x02", 1)
	if rate, err := pcm.ReadWAV(strings.NewReader(endless)); err != nil || rate != 22_050 {
		t.Errorf("a file that is written as it is spoken: %d, %v", rate, err)
	}
	extra := good[:12] + "LIST\x03\x00\x00\x00abc\x00" + good[12:]
	if rate, err := pcm.ReadWAV(strings.NewReader(extra)); err != nil || rate != 22_050 {
		t.Errorf("a file with another part: %d, %v", rate, err)
	}
	for name, text := range map[string]string{
		"empty":            "",
		"cut":              good[:20],
		"no WAV":           strings.Repeat("{}", 30),
		"another RIFF":     strings.Replace(good, "WAVE", "AVI ", 1),
		"stereo":           strings.Replace(good, "\x01\x00\x01\x00", "\x01\x00\x02\x00", 1),
		"float":            strings.Replace(good, "\x01\x00\x01\x00", "\x03\x00\x01\x00", 1),
		"8 bit":            strings.Replace(good, "\x02\x00\x10\x00", "\x01\x00\x08\x00", 1),
		"no format":        good[:12] + good[36:],
		"short format":     good[:12] + "fmt \x02\x00\x00\x00\x01\x00" + good[36:],
		"huge part":        good[:12] + "LIST\xff\xff\xff\xff" + good[12:],
		"nothing but more": good[:12] + strings.Repeat(format, 40),
	} {
		if rate, err := pcm.ReadWAV(strings.NewReader(text)); err == nil {
			t.Errorf("%s: taken, with rate %d", name, rate)
		}
	}
}

func FuzzReadWAV(f *testing.F) {
	f.Add(pcm.AppendWAV(nil, []byte{1, 2, 3, 4}, 24_000))
	f.Add([]byte("RIFF\x00\x00\x00\x00WAVE"))
	f.Fuzz(func(t *testing.T, b []byte) {
		rate, err := pcm.ReadWAV(bytes.NewReader(b))
		if err != nil && rate != 0 {
			t.Errorf("rate %d beside %v", rate, err)
		}
	})
}

func BenchmarkResample(b *testing.B) {
	sound := tone(440, 22_050, 22_050)
	b.SetBytes(int64(len(sound)))
	for b.Loop() {
		if _, err := pcm.Resample(sound, 22_050, 24_000); err != nil {
			b.Fatal(err)
		}
	}
}
