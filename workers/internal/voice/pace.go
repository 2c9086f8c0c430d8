package voice

import "time"

const (
	maxAhead   = 4 * rate  // number of samples that may be sent ahead of playback
	maxFrame   = rate / 10 // maximum number of samples in a frame
	startFrame = rate / 5  // if fewer samples than this are ahead of playback, a frame is sent before it is full
)

// pace limits the speed at which audio is sent. Audio may be ahead of playback by at most maxAhead.
// So if the caller interrupts an answer, only a few seconds of audio were sent in vain. If the
// client has played all audio, playback pauses until more is sent.
//
// Each answer has its own pace. The zero value is ready for use.
type pace struct {
	played time.Time // time when the client will have played all audio that was sent; zero before the first audio is sent
}

// ahead returns the number of samples that have been sent but not played.
func (p *pace) ahead(now time.Time) int64 {
	return max(0, int64(p.played.Sub(now).Seconds()*rate))
}

// sent records that a number of samples was sent.
func (p *pace) sent(now time.Time, samples int64) {
	if p.played.Before(now) {
		p.played = now
	}
	p.played = p.played.Add(playTime(samples))
}

// wait returns the delay after which the given number of samples may be sent.
func (p *pace) wait(now time.Time, samples int64) time.Duration {
	return max(0, playTime(p.ahead(now))-playTime(maxAhead-samples))
}

// playTime returns the duration of samples when they are played.
func playTime(samples int64) time.Duration { return time.Duration(samples) * time.Second / rate }
