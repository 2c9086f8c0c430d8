package stream

import "strings"

// SentText is the text sent to a reader that cannot retract any of it: other protocols have no
// event for a void attempt. A new attempt repeats the text, and only the text after the part
// already sent is new. If a new attempt's text differs, the reader's answer cannot be corrected.
// The zero value has sent nothing.
type SentText struct {
	text   []byte
	at     int  // bytes of the text that the current attempt has repeated
	broken bool // the current attempt's text differs
}

// Delta takes the next text of the current attempt and returns the part that is new to the reader.
// It returns false once the text differs from what the reader has received.
func (t *SentText) Delta(text string) (fresh string, ok bool) {
	if t.broken {
		return "", false
	}

	// The part of the text that was already sent must be the same as in the earlier attempt.
	known := min(len(text), len(t.text)-t.at)
	if text[:known] != string(t.text[t.at:t.at+known]) {
		t.broken = true
		return "", false
	}

	t.at += known
	fresh = text[known:]
	t.text = append(t.text, fresh...)
	t.at += len(fresh)
	return fresh, true
}

// Restarted begins a new attempt, which repeats everything.
func (t *SentText) Restarted() { t.at = 0 }

// Text returns the text that was sent.
func (t *SentText) Text() string { return string(t.text) }

// Rest takes the whole final text and returns the part that was not sent. It returns false if the
// text does not start with the text already sent.
func (t *SentText) Rest(full string) (fresh string, ok bool) {
	if t.broken || !strings.HasPrefix(full, string(t.text)) {
		t.broken = true
		return "", false
	}
	fresh = full[len(t.text):]
	t.text = append(t.text, fresh...)
	t.at = len(t.text)
	return fresh, true
}
