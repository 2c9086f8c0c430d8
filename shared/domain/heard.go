package domain

// Heard is what was heard of a spoken answer that was interrupted.
type Heard struct {
	Text    string // as far as it was heard; empty: nothing of it
	AudioMS int64
}
