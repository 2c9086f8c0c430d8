package agentloop

import (
	"slices"
	"strings"
)

// mode is the kind of Markdown text at the current character.
type mode int

const (
	inText  mode = iota
	inSpan       // after backticks that may begin inline code, which ends in the same line
	inInfo       // in the rest of the line that begins a code block
	inFence      // inside a code block
)

// markdown tracks which parts of a text are code, because brackets in code are not citations.
type markdown struct {
	mode   mode
	char   rune  // the character of which the current run, or the fence of the current code block, consists
	length int   // length of the run that began the code
	runs   []int // in possible inline code: the lengths of all runs of backticks so far, including the first run
	run    int   // length of the current run, which consists of backticks or tildes in text, and of backticks in inline code
	lead   bool  // the line so far contains only characters of fencePrefix
	first  bool  // value of lead at the beginning of the run
	loose  bool  // the line has unmatched backticks, which might begin code together with the next line
	fence  int   // in a code block: length of a possible closing fence in this line; negative if the line cannot be a closing fence
}

// fencePrefix contains the characters that may precede a code block's fence in its line: white
// space, quote signs, and the characters of list markers.
const fencePrefix = " \t>-*+.)0123456789"

// put processes a character of the text.
func (m *markdown) put(r rune) {
	switch {
	case m.mode == inFence:
		m.fenced(r)
	case r == '\n':
		m.lead, m.loose = true, false
		if m.mode == inInfo {
			m.mode, m.fence = inFence, 0
		}
	case m.mode == inInfo && r == '`' && m.char == '`': // not a code block, because the line of its fence contains another backtick
		m.mode, m.run, m.runs = inSpan, 1, append(m.runs[:0], m.length)
	default:
		m.lead = m.lead && strings.ContainsRune(fencePrefix, r)
	}
}

// fenced processes a character of a code block. The block ends with the line of its closing fence.
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

// count adds a character to the current run of backticks or tildes.
func (m *markdown) count(r rune) {
	if r != '`' && (r != '~' || m.mode != inText) {
		return
	}
	if m.run == 0 {
		m.char, m.first = r, m.lead
	}
	m.run++
}

// runEnded reports whether the character r ends the current run of backticks or tildes.
func (m *markdown) runEnded(r rune) bool { return m.run > 0 && r != m.char }

// endRun processes a complete run of backticks or tildes. It returns true if the run closes inline
// code. If held is true, the text may be scanned again, so endRun does not record the run.
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

// dropSpan treats the opening run as ordinary text, because no run of the same length closes it.
// Inline code may begin with the next run instead.
func (m *markdown) dropSpan() {
	m.mode, m.run, m.loose = inText, 0, true

	// Skip pairs of runs with the same length, because they enclose complete inline code.
	for rest := m.runs[1:]; len(rest) > 0; {
		end := slices.Index(rest[1:], rest[0])
		if end < 0 {
			m.mode, m.length, m.runs = inSpan, rest[0], rest
			return
		}
		rest = rest[end+2:]
	}
}
