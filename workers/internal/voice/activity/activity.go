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

	// Longest is how many samples speech has at most: then it ends as if by silence.
	Longest = 60 * rate

	onsetSpan   = 10                       // frames looked at for a beginning
	onsetVoiced = 5                        // of them must be voice: a loud one that may be, of a pitch that moves, is half of one,
	onsetSure   = 3                        // and so many must surely be
	loud        = 20.0                     // dB above the floor
	leastPause  = 250 * perMS              // of silence after which speech may have ended
	tail        = 300 * perMS              // behind voice, for which whatever stands out belongs to the speech
	warmUp      = rate                     // of audio before the present, to know the noise again
	maxOnset    = onsetSpan * frameSamples // that the beginning of speech lies back
	steadyLevel = 1.5                      // dB that the frames of a steady tone differ by
	steadyCross = framesPerSecond          // and by how many crossings a second: one in each
	fewest      = 320                      // crossings a second of a voice: below is hum
	limit       = 4200                     // and above is hiss
	fewestVowel = 500                      // of most vowels
	maxVowel    = 3000
	blank       = math.MaxInt64 - 2*Longest // no sample
)

// Settings are how a detector finds speech.
type Settings struct {
	Threshold float64 // 0 to 1: how clearly speech must stand out
	PrefixMS  int     // of audio before the speech that belong to it
	SilenceMS int     // of silence that end it
}

// Event is a beginning or an end of speech.
type Event struct {
	Stopped bool
	From    int64 // the first sample of the speech, with the padding before it
	To      int64 // of an end: the sample behind the last, the silence included
	Last    int64 // of an end: the sample behind which nothing was heard
	At      int64 // the sample before which it was known
}

// Detector finds speech in audio. Make it with New.
type Detector struct {
	prefix, silence int64
	margin, voicing float64

	at    int64 // of the next sample
	since int64 // no speech begins before it
	meter *meter
	floor floor
	whole bool // the frame was heard from its beginning
	last  [onsetSpan]heard
	count int

	speaking bool
	from     int64
	support  int64 // where the speech was last heard
	voiced   int64 // and its voice
	active   bool  // the frame before stood out
}

// heard is a frame as it is looked at for a beginning.
type heard struct {
	measured

	voice voiced
}

// voiced is how surely a frame is voice: in halves.
type voiced int

const (
	unvoiced voiced = iota
	perhaps
	surely
)

// New makes a detector of audio that begins with the sample position.
func New(d Settings, position int64) *Detector {
	n := &Detector{at: position, since: position, meter: newMeter(), floor: newFloor(), whole: position%frameSamples == 0}
	n.Configure(d)
	return n
}

// Resume makes a detector of audio that begins with the sample position, in the middle of speech from the sample from.
func Resume(d Settings, position, from int64) *Detector {
	n := New(d, position)
	n.speaking, n.from, n.support, n.voiced = true, from, position, position
	return n
}

// Configure has the detector go by d from here on.
func (d *Detector) Configure(c Settings) {
	t := min(max(c.Threshold, 0), 1)
	d.prefix, d.silence = int64(c.PrefixMS)*perMS, int64(c.SilenceMS)*perMS
	d.margin = 2 + 16*t*t // dB above the floor: 6 in the middle, 18 at most
	d.voicing = min(1.1*t, 0.45+0.2*t)
}

// Restart forgets speech that began before the sample at, and what may become some, as the audio before is dealt with; the
// noise stays known.
func (d *Detector) Restart(at int64) {
	d.since = max(d.since, at)
	if d.speaking && d.from < at {
		d.speaking, d.count = false, 0
	}
}

// Heard tells up to which sample was listened.
func (d *Detector) Heard() int64 { return d.at }

// Speaking tells whether there is speech, and its first sample.
func (d *Detector) Speaking() (from int64, ok bool) { return d.from, d.speaking }

// Pausing tells whether the speech that there is has been silent for so long that it may have ended, though it may go on: half of the
// silence that ends it. last is the sample behind which nothing was heard.
func (d *Detector) Pausing() (last int64, ok bool) {
	return d.support, d.speaking && d.at-d.support >= max(d.silence/2, leastPause)
}

// Needs tells the sample from which on another detector needs the audio to go on like this one.
func (d *Detector) Needs() int64 {
	if d.speaking {
		return d.from
	}
	return max(d.since, d.at-max(warmUp, maxOnset+d.prefix))
}

// Write takes audio in and gives what was found.
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

// frame looks at the frame that ends before d.at.
func (d *Detector) frame(got measured, found []Event) []Event {
	d.floor.add(got.level)
	over := got.level - d.floor.known
	if d.speaking {
		return d.goOn(over, got, found)
	}
	voice := unvoiced
	if over > d.margin {
		voice = d.voice(over, got)
	}
	d.last[d.count%onsetSpan] = heard{measured: got, voice: voice}
	d.count++
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

// voice tells how surely a frame is voice that stands out so much.
func (d *Detector) voice(over float64, got measured) voiced {
	switch {
	case d.voicing == 0:
		return surely
	case got.crossings < fewest || got.crossings > limit:
		return unvoiced
	case d.meter.periodicity() > d.voicing:
		return surely
	case over > loud && got.crossings > fewestVowel && got.crossings < maxVowel:
		return perhaps
	}
	return unvoiced
}

// onset tells whether the last frames are a beginning of speech, and where it lies.
func (d *Detector) onset() (first int64, ok bool) {
	looked := min(d.count, onsetSpan)
	points, sure, first := 0, 0, int64(blank)
	low, high := measured{level: math.Inf(1), crossings: math.MaxInt}, measured{level: math.Inf(-1)}
	for back := range looked {
		h := d.last[(d.count-1-back)%onsetSpan]
		if h.voice == unvoiced {
			continue
		}
		points += int(h.voice)
		if h.voice == surely {
			sure++
		}
		first = d.at - int64(back+1)*frameSamples
		low.level, low.crossings = min(low.level, h.level), min(low.crossings, h.crossings)
		high.level, high.crossings = max(high.level, h.level), max(high.crossings, h.crossings)
	}
	steady := high.level-low.level < steadyLevel && high.crossings-low.crossings <= steadyCross
	return first, points >= onsetVoiced*int(surely) && sure >= onsetSure && (!steady || d.voicing == 0)
}

// goOn looks at a frame of speech, and ends it when it is over.
func (d *Detector) goOn(over float64, got measured, found []Event) []Event {
	active := over > max(d.margin-2, 1)
	if active {
		switch {
		case d.voice(over, got) == surely:
			d.voiced, d.support = d.at, d.at
		case d.active && d.at-d.voiced <= tail: // one frame alone is a click
			d.support = d.at
		}
	}
	d.active = active
	if d.at-d.support < d.silence && d.at+frameSamples-d.from <= Longest {
		return found
	}
	d.speaking, d.since, d.count = false, d.at, 0
	return append(found, Event{Stopped: true, From: d.from, To: d.at, Last: d.support, At: d.at})
}
