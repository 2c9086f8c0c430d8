package agentloop

import (
	"slices"
	"strings"
)

// mode says how the text at hand is read.
type mode int

const (
	inText  mode = iota
	inSpan       // behind a backtick that may begin inline code, which ends in the same line
	inInfo       // the rest of the line that begins a code block
	inFence      // inside a code block
)

// markdown follows a text as far as code is concerned: brackets in code are no citations.
type markdown struct {
	mode   mode
	char   rune  // that the run at hand, or the code block, is made of
	length int   // of the run that began the code
	runs   []int // in what may be inline code: the lengths of the runs of backticks so far, with the one that began it
	run    int   // length of the run at hand: backticks or tildes in text, backticks in inline code
	lead   bool  // so far the line has only what may stand before a code block's fence
	first  bool  // it had when the run began
	loose  bool  // the line has backticks that begin no code, so that what joins it with the next may make some of them
	fence  int   // in a code block: length of the line's run that may be its end, negative if it is none
}

// beforeFence is what may stand before a code block's fence in its line: indents, quotes, items of lists.
const beforeFence = " \t>-*+.)0123456789"

// put follows a character of the text.
func (m *markdown) put(r rune) {
	switch {
	case m.mode == inFence:
		m.fenced(r)
	case r == '\n':
		m.lead, m.loose = true, false
		if m.mode == inInfo {
			m.mode, m.fence = inFence, 0
		}
	case m.mode == inInfo && r == '`' && m.char == '`': // it was no code block: those have no backtick in that line
		m.mode, m.run, m.runs = inSpan, 1, append(m.runs[:0], m.length)
	default:
		m.lead = m.lead && strings.ContainsRune(beforeFence, r)
	}
}

// fenced follows a character of a code block, up to the end of the line that ends it.
func (m *markdown) fenced(r rune) {
	switch {
	case r == '\n':
		if m.fence >= m.length {
			m.mode = inText
		}
		m.lead, m.fence = true, 0
	case r == m.char && m.lead:
		m.fence++
	case isBlank(r) || r == '\r':
		m.lead = m.lead && m.fence == 0
	case r == '>' && m.lead && m.fence == 0:
	default:
		m.lead, m.fence = false, -1
	}
}

// count takes a character that may be of a run.
func (m *markdown) count(r rune) {
	if r != '`' && (r != '~' || m.mode != inText) {
		return
	}
	if m.run == 0 {
		m.char, m.first = r, m.lead
	}
	m.run++
}

// ended reports whether r ends the run at hand.
func (m *markdown) ended(r rune) bool { return m.run > 0 && r != m.char }

// endRun says what a run was, now that it is over: true if it ended inline code. One that is held back may be something
// else once it is read again.
func (m *markdown) endRun(held bool) bool {
	run := m.run
	m.run = 0
	switch {
	case m.mode == inSpan && run == m.length:
		m.mode = inText
		return true
	case m.mode == inSpan && held:
	case m.mode == inSpan:
		m.runs = append(m.runs, run)
	case m.first && run >= 3:
		m.mode, m.length = inInfo, run
	case m.char == '`':
		m.mode, m.length, m.runs = inSpan, run, append(m.runs[:0], run)
	}
	return false
}

// noSpan takes back that the run which seemed to begin inline code did. The next one that has no equal may have.
func (m *markdown) noSpan() {
	m.mode, m.run, m.loose = inText, 0, true
	for rest := m.runs[1:]; len(rest) > 0; {
		end := slices.Index(rest[1:], rest[0])
		if end < 0 {
			m.mode, m.length, m.runs = inSpan, rest[0], rest
			return
		}
		rest = rest[end+2:]
	}
}
