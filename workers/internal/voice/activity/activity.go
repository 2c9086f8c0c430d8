package activity

import (
	"encoding/binary"
	"math"
)

const (
	rate            = 24_000
	framesPerSecond = 100
	frameSamples    = rate / framesPerSecond
	perMS           = rate / 1000
	leastBit        = 1.0 / 32768

	// Longest is the maximum length of speech in samples. Longer speech ends at this length, as if
	// silence followed.
	Longest = 60 * rate

	onsetSpan    = 10                       // number of frames that are searched for the onset of speech
	onsetVoiced  = 5                        // minimum sum over onsetSpan frames at which speech starts; voice counts 1, possible voice 0.5
	onsetSure    = 3                        // minimum number of the onsetSpan frames that must certainly be voice
	loud         = 20.0                     // dB above the noise floor
	minPause     = 250 * perMS              // length of silence after which speech may have ended
	tail         = 300 * perMS              // time after voice in which any sound above the noise floor counts as speech
	warmUp       = rate                     // length of earlier audio from which a new detector estimates the noise
	maxOnset     = onsetSpan * frameSamples // maximum number of samples between the onset of speech and its detection
	steadyLevel  = 1.5                      // maximum difference in dB between the frames of a steady tone
	steadyCross  = framesPerSecond          // maximum difference in zero crossings per second between frames of a steady tone: one per frame
	minCrossings = 320                      // minimum number of zero crossings per second in a voice; hum has fewer
	maxCrossings = 4200                     // maximum number of zero crossings per second in a voice; hiss has more
	minVowel     = 500                      // minimum number of zero crossings per second in most vowels
	maxVowel     = 3000
	noSample     = math.MaxInt64 - 2*Longest // a position that lies outside of the range of all samples
)

// Settings are the settings of a Detector.
type Settings struct {
	Threshold float64 // 0 to 1; the larger the value, the louder speech must be relative to the noise
	PrefixMS  int     // the speech includes this many ms of audio before the onset
	SilenceMS int     // ms of silence after which speech ends
}

// Event is the start or the end of speech.
type Event struct {
	Stopped bool
	From    int64 // position of the first sample of the speech, including the prefix
	To      int64 // only for an end of speech: position after its last sample, including the silence
	Last    int64 // only for an end of speech: position after its last sound
	At      int64 // position at which the start or end was detected
}

// Detector finds speech in audio. Create it with New or Resume.
type Detector struct {
	prefix, silence int64
	margin, voicing float64

	at    int64 // position of the next sample
	since int64 // speech cannot begin before this position
	meter *meter
	floor floor
	whole bool // true if no sample of the current frame is missing
	last  [onsetSpan]onsetFrame
	count int

	speaking bool
	from     int64
	support  int64 // position after the last sound of the speech
	voiced   int64 // position after the last frame with voice
	active   bool  // true if the previous frame exceeded the noise floor
}

// onsetFrame is one of the frames that are searched for the onset of speech.
type onsetFrame struct {
	measurement

	voice voiced
}

// voiced states how certainly a frame is voice: 0 (not), 1 (possibly) or 2 (certainly).
type voiced int

const (
	unvoiced voiced = iota
	maybeVoiced
	surelyVoiced
)

// New creates a detector. position is the position of the first sample in the audio.
func New(d Settings, position int64) *Detector {
	n := &Detector{at: position, since: position, meter: newMeter(), floor: newFloor(), whole: position%frameSamples == 0}
	n.Configure(d)
	return n
}

// Resume creates a detector for audio that begins in the middle of speech. position is the position
// of the first sample, and from is the position at which the speech began.
func Resume(d Settings, position, from int64) *Detector {
	n := New(d, position)
	n.speaking, n.from, n.support, n.voiced = true, from, position, position
	return n
}

// Configure replaces the detector's settings.
func (d *Detector) Configure(c Settings) {
	t := min(max(c.Threshold, 0), 1)
	d.prefix, d.silence = int64(c.PrefixMS)*perMS, int64(c.SilenceMS)*perMS
	d.margin = 2 + 16*t*t // dB above the noise floor: 6 for the threshold 0.5, and at most 18
	d.voicing = min(1.1*t, 0.45+0.2*t)
}

// Restart discards speech that began before the given position, even if it has not been detected
// yet. It keeps the estimate of the noise.
func (d *Detector) Restart(at int64) {
	d.since = max(d.since, at)
	if d.speaking && d.from < at {
		d.speaking, d.count = false, 0
	}
}

// Heard returns the position up to which the detector has processed audio.
func (d *Detector) Heard() int64 { return d.at }

// Speaking reports whether there is speech at the current position. The result from is the position
// at which the speech began.
func (d *Detector) Speaking() (from int64, ok bool) { return d.from, d.speaking }

// Pausing reports whether the speech has probably ended. Silence must have lasted for at least
// minPause, and for half of the time after which speech ends. The result last is the position after
// the last sound.
func (d *Detector) Pausing() (last int64, ok bool) {
	return d.support, d.speaking && d.at-d.support >= max(d.silence/2, minPause)
}

// Needs returns the position of the first sample that another detector needs in order to continue
// in place of d.
func (d *Detector) Needs() int64 {
	if d.speaking {
		return d.from
	}
	return max(d.since, d.at-max(warmUp, maxOnset+d.prefix))
}

// Write processes audio and returns the events that it has detected. The audio consists of 16-bit
// samples; the pieces may have any length, and an odd byte at the end of a piece is ignored.
func (d *Detector) Write(pcm []byte) []Event {
	var found []Event
	for ; len(pcm) >= 2; pcm = pcm[2:] {
		d.meter.add(float64(int16(binary.LittleEndian.Uint16(pcm))) * leastBit)
		d.at++
		if d.at%frameSamples != 0 {
			continue
		}
		got := d.meter.frame()
		if d.whole {
			found = d.frame(got, found)
		}
		d.whole = true
	}
	return found
}

// frame processes the frame that ends at the position d.at, and appends the detected events to
// found.
func (d *Detector) frame(got measurement, found []Event) []Event {
	d.floor.add(got.level)
	over := got.level - d.floor.known
	if d.speaking {
		return d.goOn(over, got, found)
	}

	voice := unvoiced
	if over > d.margin {
		voice = d.voice(over, got)
	}

	d.last[d.count%onsetSpan] = onsetFrame{measurement: got, voice: voice}
	d.count++

	// Speech can begin only at a frame with voice. Frames before the last call of Restart are
	// ignored.
	if voice == unvoiced || d.at-frameSamples < d.since {
		return found
	}

	first, ok := d.onset()
	if !ok {
		return found
	}

	d.speaking, d.from, d.support, d.voiced, d.active = true, max(first-d.prefix, d.since), d.at, d.at, true
	return append(found, Event{From: d.from, At: d.at})
}

// voice returns how certainly a frame is voice. over is the number of dB by which the frame exceeds
// the noise floor. With the threshold 0, every frame counts as voice.
func (d *Detector) voice(over float64, got measurement) voiced {
	switch {
	case d.voicing == 0:
		return surelyVoiced
	case got.crossings < minCrossings || got.crossings > maxCrossings:
		return unvoiced
	case d.meter.periodicity() > d.voicing:
		return surelyVoiced
	case over > loud && got.crossings > minVowel && got.crossings < maxVowel:
		return maybeVoiced
	}
	return unvoiced
}

// onset reports whether speech begins in the latest frames. The result first is the position at
// which speech began: the beginning of the earliest frame among them that has voice.
func (d *Detector) onset() (first int64, ok bool) {
	looked := min(d.count, onsetSpan)
	points, sure, first := 0, 0, int64(noSample)
	low, high := measurement{level: math.Inf(1), crossings: math.MaxInt}, measurement{level: math.Inf(-1)}

	for back := range looked {
		h := d.last[(d.count-1-back)%onsetSpan]
		if h.voice == unvoiced {
			continue
		}
		points += int(h.voice)
		if h.voice == surelyVoiced {
			sure++
		}
		first = d.at - int64(back+1)*frameSamples
		low.level, low.crossings = min(low.level, h.level), min(low.crossings, h.crossings)
		high.level, high.crossings = max(high.level, h.level), max(high.crossings, h.crossings)
	}

	// A steady tone, such as hum or a dial tone, is periodic like a voice, but it does not vary.
	steady := high.level-low.level < steadyLevel && high.crossings-low.crossings <= steadyCross
	return first, points >= onsetVoiced*int(surelyVoiced) && sure >= onsetSure && (!steady || d.voicing == 0)
}

// goOn processes a frame while there is speech. When silence has lasted for the configured time, or
// the speech is longer than Longest, goOn ends the speech and appends this event to found.
func (d *Detector) goOn(over float64, got measurement, found []Event) []Event {
	// During speech the threshold is lower, so that the quiet end of a word does not end the
	// speech.
	active := over > max(d.margin-2, 1)
	if active {
		switch {
		case d.voice(over, got) == surelyVoiced:
			d.voiced, d.support = d.at, d.at
		case d.active && d.at-d.voiced <= tail: // a single frame with sound is only a click, and does not extend the speech
			d.support = d.at
		}
	}
	d.active = active

	if d.at-d.support < d.silence && d.at+frameSamples-d.from <= Longest {
		return found
	}

	// The next speech must not include audio of the speech that has ended.
	d.speaking, d.since, d.count = false, d.at, 0
	return append(found, Event{Stopped: true, From: d.from, To: d.at, Last: d.support, At: d.at})
}
