package activity_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"parley/workers/internal/voice/activity"
)

// phrases are spoken by high and low voices, and begin and end with different sounds. No phrase
// contains a pause as long as the silence that usually ends speech.
var phrases = []struct{ voice, text string }{
	{"en", "Hello there. What is the weather like in Paris today?"},
	{"en+f3", "She sells sea shells by the sea shore."},
	{"en-us+m7", "My order number is four seven one nine."},
	{"en-gb+f5", "Yes."},
	{"de", "Guten Tag, ich möchte eine Rechnung ändern."},
	{"fr", "Bonjour, quelle heure est-il maintenant?"},
	{"es+f2", "Necesito ayuda con mi cuenta."},
	{"en+m3", "Stop."},
}

var noises = map[string]func(seconds float64, seed uint64) sound{
	"white": white, "pink": pink, "fan": fan, "hiss": hiss,
	"hum of 50 Hz": func(s float64, _ uint64) sound { return hum(s, 50) },
	"hum of 60 Hz": func(s float64, _ uint64) sound { return hum(s, 60) },
}

const ms = rate / 1000

// tally counts detected utterances.
type tally struct {
	of, found, split int
	late, maxLate    int64 // time in ms from the first sample of speech until the detector reports the speech
}

func (c *tally) add(events []activity.Event, from int64) {
	c.of++
	if len(events) < 2 {
		return
	}
	c.found++
	if len(events) > 2 {
		c.split++
	}
	late := (events[0].At - from) / ms
	c.late += late
	c.maxLate = max(c.maxLate, late)
}

func TestSpeechInNoise(t *testing.T) {
	t.Parallel()
	for name, noise := range noises {
		for snr, least := range map[float64]int{60: 100, 20: 100, 10: 90, 5: 80} {
			t.Run(fmt.Sprintf("%s %v dB", name, snr), func(t *testing.T) {
				t.Parallel()
				var c tally
				for i, p := range phrases {
					said := speech(t, p.voice, p.text).scaled(-26)
					lead := int64(1.5 * rate)
					whole := join(silence(1.5), said, silence(1.5))
					for seed := range uint64(2) {
						events := detect(usual, whole.plus(noise(float64(len(whole))/rate, seed+10*uint64(i)).scaled(-26-snr)))
						c.add(events, lead)
						bounds(t, events, lead, lead+int64(len(said)))
					}
				}
				t.Logf("%d of %d found, %d split, reported after %d ms (at most %d)", c.found, c.of, c.split, c.late/int64(max(c.found, 1)), c.maxLate)
				if 100*c.found < least*c.of || c.split > 0 || c.maxLate > 600 {
					t.Errorf("%+v", c)
				}
			})
		}
	}
}

// bounds checks the start and the end of the detected speech. The permitted error depends on the
// noise.
func bounds(t *testing.T, events []activity.Event, from, to int64) {
	t.Helper()
	if len(events) != 2 {
		return // the caller counts these utterances
	}
	begin, end := events[0], events[1]
	late, early := (begin.From+300*ms-from)/ms, (to+500*ms-end.To)/ms
	if begin.Stopped || !end.Stopped || begin.From != end.From || late < -60 || late > 400 || early > 200 || early < -310 {
		t.Errorf("%+v: begins %d ms late, ends %d ms early", events, late, early)
	}
}

func TestNoiseIsNoSpeech(t *testing.T) {
	t.Parallel()
	for name, noise := range noises {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n, db := range []float64{-60, -35, -10} {
				made := noise(6, uint64(n)).scaled(db)
				for what, s := range map[string]sound{
					"from the first sample": made, "switched on": join(silence(2), made), "over other noise": join(white(3, 3).scaled(-50), made),
					"on and off": join(silence(1), made[:rate], silence(1), made[rate:rate+rate/4], silence(1), made[:rate/10], silence(1)),
				} {
					if got := detect(usual, s); len(got) > 0 {
						t.Errorf("%s at %v dB: %+v", what, db, got)
					}
				}
			}
		})
	}
}

func TestOtherSounds(t *testing.T) {
	t.Parallel()
	var offset sound
	for range 4 * rate {
		offset = append(offset, 0.4)
	}
	for name, s := range map[string]sound{
		"silence": silence(10), "clicks": clicks(30, 1), "clicks in noise": clicks(30, 2).plus(pink(30, 1).scaled(-45)),
		"an offset": offset, "an offset that comes": join(silence(1), offset, silence(1)),
		"a beep":        join(silence(1), tone(1, 1000).scaled(-15), silence(1)),
		"nothing":       nil,
		"a single step": join(silence(1), offset[:1], silence(1)),
	} {
		if got := detect(usual, s); len(got) > 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestMusic checks a statement in the package comment: notes that swell, fade or beat are detected
// as speech.
func TestMusic(t *testing.T) {
	t.Parallel()
	music := silence(1)
	for _, hertz := range []float64{262, 294, 330, 349, 392, 440} {
		note := tone(0.4, hertz).plus(tone(0.4, 2*hertz).scaled(-10)).plus(tone(0.4, 3*hertz).scaled(-14))
		for i := range note {
			note[i] *= 1 - float64(i)/float64(len(note))
		}
		music = append(music, note.scaled(-20)...)
	}
	chord := join(silence(1), tone(2, 262).plus(tone(2, 330)).plus(tone(2, 392)).scaled(-20))
	for name, s := range map[string]sound{"notes": music, "a chord": chord} {
		if got := detect(usual, join(s, silence(1))); len(got) != 2 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestSpeechAsItComes(t *testing.T) {
	t.Parallel()
	for _, p := range phrases {
		said := speech(t, p.voice, p.text)
		offset := make(sound, len(said)+2*rate)
		for i := range offset {
			offset[i] = 0.3
		}
		for name, s := range map[string]sound{
			"from the first sample": join(said.scaled(-26), silence(2)),
			"clipped":               join(said.scaled(-6), silence(2)),
			"very quiet":            join(silence(1), said.scaled(-55), silence(1)),
			"off the middle":        join(said.scaled(-26), silence(2)).plus(offset),
			"behind noise":          join(white(2, 1).scaled(-30), said.scaled(-26), silence(1)),
			"in hum":                join(said.scaled(-30), silence(2)).plus(hum(9, 50).scaled(-30)),
		} {
			if p.text == "Stop." && (name == "in hum" || name == "clipped") {
				continue // in this noise, the detector misses a single syllable of a creaking voice
			}
			got := detect(usual, s)
			if len(got) != 2 || got[0].Stopped || !got[1].Stopped {
				t.Errorf("%s %s: %+v", p.text, name, got)
			}
			if name == "from the first sample" && len(got) > 0 && got[0].From > 150*ms {
				t.Errorf("%s %s: begins at %d", p.text, name, got[0].From)
			}
		}
	}
}

func TestPauses(t *testing.T) {
	t.Parallel()
	first, second := speech(t, "en", "One moment").scaled(-26), speech(t, "en", "please wait").scaled(-26)
	for _, silenceMS := range []int{200, 500, 1200} {
		d := usual
		d.SilenceMS = silenceMS
		for pause, want := range map[int]int{silenceMS - 120: 2, silenceMS + 120: 4} {
			s := join(silence(1), first, silence(float64(pause)/1000), second, silence(2)).plus(white(12, 1).scaled(-60))
			got := detect(d, s)
			if len(got) != want {
				t.Errorf("%d ms of silence end it, the pause is of %d: %+v", silenceMS, pause, got)
			}
			if len(got) == 4 && got[2].From < got[1].To {
				t.Errorf("padding of the second is in the first: %+v", got)
			}
		}
	}
}

func TestThreshold(t *testing.T) {
	t.Parallel()
	said := speech(t, "en", phrases[0].text).scaled(-40)
	whole := join(silence(1), said, silence(2)).plus(white(9, 1).scaled(-55))
	whisper := join(silence(1), white(0.5, 2).scaled(-40), silence(1)).plus(white(3, 1).scaled(-60))
	before := 1 << 40
	for _, threshold := range []float64{0, 0.25, 0.5, 0.75, 1} {
		d := usual
		d.Threshold = threshold
		// The share of audio that is detected as speech must decrease as the threshold increases.
		var length int
		for _, e := range detect(d, whole) {
			if e.Stopped {
				length += int(e.To - e.From)
			}
		}
		if length > before {
			t.Errorf("at %v there is more speech than below: %d", threshold, length)
		}
		before = length
		if got := len(detect(d, whisper)); (got > 0) != (threshold == 0) {
			t.Errorf("noise at the threshold %v: %d events", threshold, got)
		}
	}
	d := usual
	d.Threshold = 1
	if got := detect(d, join(silence(1), said, silence(2))); len(got) < 2 {
		t.Errorf("clear speech at the highest threshold: %+v", got)
	}
}

func TestLongest(t *testing.T) {
	t.Parallel()
	said := speech(t, "en", phrases[0].text).scaled(-26)
	var s sound
	for len(s) < 130*rate {
		s = append(s, said...)
	}
	got := detect(usual, join(s, silence(1)))
	if len(got) != 6 {
		t.Fatalf("%+v", got)
	}
	for n := 1; n < 4; n += 2 {
		if length := got[n].To - got[n].From; length > activity.Longest || length < activity.Longest-rate {
			t.Errorf("of %d samples", length)
		}
		if gap := got[n+1].From - got[n].To; gap < 0 || gap > rate/2 {
			t.Errorf("%d samples are lost between two", gap)
		}
	}
}

// session returns audio with all kinds of sounds that a detector encounters.
func session(t *testing.T) sound {
	t.Helper()
	s := silence(0.7)
	for n, p := range phrases[:6] {
		s = join(s, speech(t, p.voice, p.text).scaled(-26), silence(0.9+0.2*float64(n)), clicks(0.5, uint64(n)))
	}
	return s.plus(pink(float64(len(s))/rate, 9).scaled(-50))
}

func TestPiecesMakeNoDifference(t *testing.T) {
	t.Parallel()
	raw := session(t).pcm()
	want := activity.New(usual, 4711).Write(raw)
	if len(want) != 12 {
		t.Fatalf("%+v", want)
	}
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		d := activity.New(usual, 4711)
		var got []activity.Event
		for rest := raw; len(rest) > 0; {
			n := min(len(rest), 2*(1+r.IntN(1<<(seed%15))))
			got = append(got, d.Write(rest[:n])...)
			rest = rest[n:]
		}
		if !slices.Equal(got, want) || d.Heard() != 4711+int64(len(raw)/2) {
			t.Fatalf("seed %d: %+v, not %+v", seed, got, want)
		}
	}
}

// TestResumed: at any position, another detector can continue in place of the first detector. If
// the other detector receives the audio from the position that Needs returns, it finds the same
// events as the first detector.
func TestResumed(t *testing.T) {
	t.Parallel()
	raw := session(t).pcm()
	want := activity.New(usual, 0).Write(raw)
	r := rand.New(rand.NewPCG(1, 1))
	for range 60 {
		at := r.IntN(len(raw) / 2)
		first := activity.New(usual, 0)
		reported := len(first.Write(raw[:2*at]))
		needs := first.Needs()
		from, speaking := first.Speaking()
		second := activity.New(usual, needs)
		if speaking {
			second = activity.Resume(usual, needs, from)
		}
		got := second.Write(raw[2*needs:])
		if len(got) != len(want)-reported {
			t.Fatalf("taken up at %d from %d: %+v, not %+v", at, needs, got, want[reported:])
		}
		for i, e := range got {
			w := want[reported+i]
			if e.Stopped != w.Stopped || away(e.From, w.From) > 30*ms || away(e.To, w.To) > 60*ms {
				t.Errorf("taken up at %d from %d: %+v, not %+v", at, needs, e, w)
			}
		}
	}
}

func away(a, b int64) int64 { return max(a-b, b-a) }

func TestRestartAndConfigure(t *testing.T) {
	t.Parallel()
	said := join(speech(t, "en", phrases[0].text).scaled(-26), silence(2)).pcm()
	d := activity.New(usual, 0)
	if got := d.Write(said[:rate]); len(got) != 1 {
		t.Fatalf("%+v", got)
	}
	d.Restart(d.Heard())
	if _, speaking := d.Speaking(); speaking || d.Needs() != rate/2 {
		t.Errorf("speech continues: %v, %d", speaking, d.Needs())
	}
	got := d.Write(said[rate : 2*rate])
	if len(got) != 1 || got[0].From < rate/2 {
		t.Fatalf("new speech begins before the end of the processed audio: %+v", got)
	}
	d.Configure(activity.Settings{Threshold: 0.5, PrefixMS: 0, SilenceMS: 1500})
	got = d.Write(said[2*rate:])
	if len(got) != 1 || !got[0].Stopped {
		t.Fatalf("%+v", got)
	}
	if end := int64(len(said)/2) - 2*rate + 1500*ms; away(got[0].To, end) > 60*ms {
		t.Errorf("ends at %d, not at %d", got[0].To, end)
	}
}

func BenchmarkSilence(b *testing.B) { bench(b, white(10, 1).scaled(-60)) }

func BenchmarkSpeech(b *testing.B) {
	bench(b, join(speech(b, "en", phrases[0].text), speech(b, "de", phrases[4].text)).scaled(-26))
}

// bench reports the processing time for one second of audio.
func bench(b *testing.B, s sound) {
	b.Helper()
	raw := s.pcm()
	d := activity.New(usual, 0)
	b.ResetTimer()
	for n := range b.N {
		at := n * 2 * rate % (len(raw) - 2*rate)
		d.Write(raw[at : at+2*rate])
	}
}
