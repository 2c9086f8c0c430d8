package stream

import "strings"

// SentText is the text that was sent to a client in a protocol that cannot retract text. A new
// attempt repeats the text, and only the text after the sent part is new to the client. If a new
// attempt produces a different text, the client's copy cannot be corrected. The zero value is ready
// for use. A SentText belongs to one stream and is used by one goroutine.
type SentText struct {
	text   []byte
	at     int  // number of bytes that the current attempt has repeated
	broken bool // whether the text of the current attempt differs from the sent text
}

// Delta takes the next piece of the current attempt's text and returns the part that is new to the
// client. It returns false after the attempt's text has differed from the text that was sent. The
// pieces must be passed in order.
func (t *SentText) Delta(text string) (fresh string, ok bool) {
	if t.broken {
		return "", false
	}

	// The repeated part must equal the text that was sent before.
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

// Restarted begins a new attempt, which repeats the text from the start. The attempt may also
// produce a different text, which the next call of Delta detects.
func (t *SentText) Restarted() { t.at = 0 }

// Text returns the text that was sent.
func (t *SentText) Text() string { return string(t.text) }

// Rest takes the complete final text and returns the part that was not sent yet. It returns false
// if the text does not begin with the text that was sent. It is called once, at the end of the run.
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
