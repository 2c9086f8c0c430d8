package domain

// Playback records which part of an interrupted spoken answer was played.
type Playback struct {
	Text    string // empty: nothing was played
	AudioMS int64
}
