package realtime

import (
	"strings"
	"time"
	"unicode/utf8"

	"parley/shared/contract"
	"parley/shared/domain"
)

// perCharacter is the estimated number of samples for speaking one character, at 15 characters a
// second. It is used until the speed of the voice is known.
const perCharacter = contract.VoiceRate / 15

// spoken is the text of an answer and its speech, divided into segments. The offsets are in bytes
// of the text.
type spoken struct {
	text     []byte
	segments []segment // segments in order; all except the last are complete
	reported int       // number of bytes of the text whose transcript was sent
	playhead playhead
}

// segment is a piece of the text, and the number of samples received for it. It begins where the
// previous segment ends.
type segment struct {
	end     int // offset in the text at which the segment ends, in bytes
	samples int64
	whole   bool // whether all samples of the segment were received
}

// playhead computes how much of an answer's audio has been played. It assumes that the client plays
// audio in real time as soon as it arrives, and pauses while it has no samples. The client can
// correct the result with conversation.item.truncate.
type playhead struct {
	sent   int64 // number of samples sent to the client
	played int64 // number of samples played at the time asOf
	asOf   time.Time
}

// advance moves the playhead to the time now, and returns the number of samples played. If now is
// earlier than the time of the last call, it does nothing. The result never exceeds the number of
// samples sent.
func (p *playhead) advance(now time.Time) int64 {
	if now.Before(p.asOf) { // audio of an earlier answer is still playing
		return p.played
	}
	fresh := int64(now.Sub(p.asOf)) * contract.VoiceRate / int64(time.Second)
	if p.sent == 0 || p.played+fresh >= p.sent {
		p.played, p.asOf = p.sent, now
		return p.played
	}
	p.played += fresh
	p.asOf = p.asOf.Add(time.Duration(fresh) * time.Second / contract.VoiceRate) // fractions of a sample count in the next call
	return p.played
}

// more records that samples were sent at the time now.
func (p *playhead) more(now time.Time, samples int64) {
	p.advance(now)
	p.sent += samples
}

// left returns how long the client needs to play the remaining samples. It is 0 if all samples were
// played.
func (p *playhead) left(now time.Time) time.Duration {
	return time.Duration(p.sent-p.advance(now)) * time.Second / contract.VoiceRate
}

// done returns the offset in bytes at which the last complete segment ends, and the number of
// samples received for the next segment. A new worker continues at this position; see Resume.
func (s *spoken) done() (end int, samples int64) {
	for _, g := range s.segments {
		if !g.whole {
			return end, g.samples
		}
		end = g.end
	}
	return end, 0
}

// segment returns the segment of the text from start to end. If the last segment is incomplete, it
// returns that segment. Otherwise it adds a segment. The open segment gets the new end.
func (s *spoken) segment(start, end int) *segment {
	// If the new segment begins after the last segment, the last segment is complete.
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

// bound adjusts the end of a segment so that it lies after the previous segment, within the text,
// and at a character boundary.
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

// emit returns the unsent part of the transcript up to the offset end. The offset must be at a
// character boundary; for segments, bound ensures this.
func (s *spoken) emit(end int) string {
	if end <= s.reported {
		return ""
	}
	fresh := string(s.text[s.reported:end])
	s.reported = end
	return fresh
}

// heard returns the text that was spoken in the given number of samples. It contains whole
// segments, and the words of the last segment that were played. The words are an estimate. AudioMS
// is rounded down.
func (s *spoken) heard(samples int64) domain.Playback {
	out := domain.Playback{AudioMS: samples / perMS}
	start := 0
	for _, g := range s.segments {
		length := s.length(start, g)
		// Playback ended within this segment, so only some of its words were played.
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

// length returns the number of samples of a segment. For an incomplete segment, it estimates the
// number from the complete segments. start is the offset at which the segment begins. The estimate
// uses the speed of the complete segments, or perCharacter if no segment is complete.
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
	return max(g.samples+1, rate*int64(utf8.RuneCount(s.text[start:g.end]))) // the segment is incomplete, so more samples follow
}

// words returns the words at the beginning of a text that were spoken. The fraction said/of is the
// part of the text's audio that was played. The argument of must not be 0. The result ends with a
// whole word.
func words(text string, said, of int64) string {
	// The function assumes that each word takes the same time.
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
	if left > 0 { // no space follows the last word
		return text
	}
	return text[:at]
}

// samples returns the number of samples received for the answer.
func (s *spoken) samples() int64 {
	var sum int64
	for _, g := range s.segments {
		sum += g.samples
	}
	return sum
}
