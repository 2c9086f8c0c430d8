package domain

// Playback is the played part of an interrupted spoken answer.
type Playback struct {
	Text    string // empty: nothing was played
	AudioMS int64
}
