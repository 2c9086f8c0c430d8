package stream

import "strings"

// Told is the text that a reader has been given who cannot take any of it back: other protocols than ours have no
// word for a void attempt. What an attempt tells anew is given only as far as it goes beyond that, and where it
// differs the reader's answer cannot be made right any more. Its zero value has told nothing.
type Told struct {
	text   []byte
	at     int  // how much of it the present attempt has told, too
	broken bool // the present attempt tells something else
}

// Delta takes what the present attempt tells next, and gives what of it is new to the reader; false once it is not
// what the reader was told.
func (t *Told) Delta(text string) (fresh string, ok bool) {
	if t.broken {
		return "", false
	}
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

// Restarted says that an attempt begins anew, and tells everything again.
func (t *Told) Restarted() { t.at = 0 }

// Rest takes the whole text at the end, and gives what the reader was never told of it; false when that does not
// go on from what it was told.
func (t *Told) Rest(full string) (fresh string, ok bool) {
	if t.broken || !strings.HasPrefix(full, string(t.text)) {
		t.broken = true
		return "", false
	}
	fresh = full[len(t.text):]
	t.text = append(t.text, fresh...)
	t.at = len(t.text)
	return fresh, true
}
