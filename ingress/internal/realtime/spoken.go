package realtime

import (
	"strings"
	"time"
	"unicode/utf8"

	"parley/shared/contract"
	"parley/shared/domain"
)

// perCharacter is how many samples a character takes to say, as long as nothing better is known: 15 a second.
const perCharacter = contract.VoiceRate / 15

// spoken is an answer's text as it is said: segment by segment.
type spoken struct {
	text     []byte
	segments []segment // in their order; all but the last are whole
	told     int       // bytes of text whose transcript was told
	playhead playhead
}

// segment is a piece of the text, from where the one before ends, and the samples that were had of it.
type segment struct {
	end     int
	samples int64
	whole   bool
}

// playhead is how much of an answer's audio was heard, if it is played as it comes: from the first samples on, in real time, waiting where
// there are none.
type playhead struct {
	sent   int64
	played int64
	asOf   time.Time
}

func (p *playhead) advance(now time.Time) int64 {
	if now.Before(p.asOf) { // what was sent before is still playing
		return p.played
	}
	fresh := int64(now.Sub(p.asOf)) * contract.VoiceRate / int64(time.Second)
	if p.sent == 0 || p.played+fresh >= p.sent {
		p.played, p.asOf = p.sent, now
		return p.played
	}
	p.played += fresh
	p.asOf = p.asOf.Add(time.Duration(fresh) * time.Second / contract.VoiceRate) // what is less than a sample counts the next time
	return p.played
}

func (p *playhead) more(now time.Time, samples int64) {
	p.advance(now)
	p.sent += samples
}

// left is how long it takes to play the rest.
func (p *playhead) left(now time.Time) time.Duration {
	return time.Duration(p.sent-p.advance(now)) * time.Second / contract.VoiceRate
}

// done gives the bytes whose segments are whole, and the samples that were had of the next.
func (s *spoken) done() (end int, samples int64) {
	for _, g := range s.segments {
		if !g.whole {
			return end, g.samples
		}
		end = g.end
	}
	return end, 0
}

// segment gives the segment from start to end: the open one, or a new one.
func (s *spoken) segment(start, end int) *segment {
	if n := len(s.segments); n > 0 && start >= s.segments[n-1].end && start > 0 {
		s.segments[n-1].whole = true
	}
	if n := len(s.segments); n == 0 || s.segments[n-1].whole {
		s.segments = append(s.segments, segment{})
	}
	open := &s.segments[len(s.segments)-1]
	open.end = s.bound(end)
	return open
}

// bound keeps an end of a segment behind the one before and in the text, and no letter is cut.
func (s *spoken) bound(end int) int {
	low := 0
	if n := len(s.segments); n > 1 {
		low = s.segments[n-2].end
	}
	end = min(max(end, low), len(s.text))
	for end < len(s.text) && !utf8.RuneStart(s.text[end]) {
		end++
	}
	return end
}

// tell gives what of the text up to end was not told yet.
func (s *spoken) tell(end int) string {
	if end <= s.told {
		return ""
	}
	fresh := string(s.text[s.told:end])
	s.told = end
	return fresh
}

// heard gives the text that the first samples say: whole segments, and of the last as many words as it was played for.
func (s *spoken) heard(samples int64) domain.Heard {
	out := domain.Heard{AudioMS: samples / perMS}
	start := 0
	for _, g := range s.segments {
		length := s.length(start, g)
		if samples < length {
			out.Text = string(s.text[:start]) + words(string(s.text[start:g.end]), samples, length)
			out.Text = strings.TrimSpace(out.Text)
			return out
		}
		samples -= length
		start = g.end
	}
	out.Text = strings.TrimSpace(string(s.text[:start]))
	return out
}

// length is how many samples a segment has: of one that has not come whole, it is guessed by those that did.
func (s *spoken) length(start int, g segment) int64 {
	if g.whole {
		return g.samples
	}
	var samples, characters int64
	from := 0
	for _, before := range s.segments {
		if before.whole && before.samples > 0 {
			samples += before.samples
			characters += int64(utf8.RuneCount(s.text[from:before.end]))
		}
		from = before.end
	}
	rate := int64(perCharacter)
	if characters > 0 {
		rate = samples / characters
	}
	return max(g.samples+1, rate*int64(utf8.RuneCount(s.text[start:g.end]))) // it has not come whole: there is more
}

// words gives as many of a text's words as were said of it, with what stands between them.
func words(text string, said, of int64) string {
	count := int64(len(strings.Fields(text)))
	left := count * said / of
	at, inside := 0, false
	for i, r := range text {
		space := strings.ContainsRune(" \t\r\n\v\f\u0085\u00a0", r)
		if inside && space {
			left--
			at = i
		}
		if left <= 0 {
			break
		}
		inside = !space
	}
	if left > 0 { // the last word has no space behind it
		return text
	}
	return text[:at]
}

// samples is how many samples were had of the answer.
func (s *spoken) samples() int64 {
	var sum int64
	for _, g := range s.segments {
		sum += g.samples
	}
	return sum
}
