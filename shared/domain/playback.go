package domain

// Heard is the played part of an interrupted spoken answer.
type Heard struct {
	Text    string // empty: nothing was played
	AudioMS int64
}
