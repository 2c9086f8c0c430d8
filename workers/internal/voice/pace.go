package voice

import "time"

const (
	maxAhead   = 4 * rate  // samples that are sent before they are played
	maxFrame   = rate / 10 // samples of a frame
	startFrame = rate / 5  // while so few are ahead, no frame waits to be full
)

// pace sends audio as it is played, and a little ahead. Where there was too little, playing stood still.
type pace struct {
	played time.Time // when what was sent will have been played; zero: nothing was sent
}

// ahead gives how many samples were sent that are not played yet.
func (p *pace) ahead(now time.Time) int64 {
	return max(0, int64(p.played.Sub(now).Seconds()*rate))
}

func (p *pace) sent(now time.Time, samples int64) {
	if p.played.Before(now) {
		p.played = now
	}
	p.played = p.played.Add(lasts(samples))
}

// wait gives how long it is until so many samples may be sent.
func (p *pace) wait(now time.Time, samples int64) time.Duration {
	return max(0, lasts(p.ahead(now))-lasts(maxAhead-samples))
}

func lasts(samples int64) time.Duration { return time.Duration(samples) * time.Second / rate }
