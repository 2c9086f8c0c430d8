package sentence

import (
	"html"
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Patterns of Markdown and of other text that is not spoken literally:
//
//   - citation: a reference to sources, such as "[1, 2]" or "[^note]"
//   - foreign: a citation in the format of OpenAI's assistants
//   - address: a URL that is not part of a link
//   - entity and tag: an HTML entity and an HTML tag
//   - target: the part of a link after its text, in parentheses or brackets
var (
	citation = regexp.MustCompile(`^\[(?:\d{1,6}(?:[,;]\s*\d{1,6})*|\^[^\]\s]{1,40})\]`)
	foreign  = regexp.MustCompile(`^【[^】]{0,60}†[^】]{0,60}】`)
	address  = regexp.MustCompile(`^(?i:https?://|www\.)[^\s<>"'()\[\]{}` + "`" + `|，。、！？；：（）「」]+`)
	entity   = regexp.MustCompile(`^&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});`)
	tag      = regexp.MustCompile(`^<(?:/?[A-Za-z][^<>]{0,200}|!--[^<>]*)>`)
	target   = regexp.MustCompile(`^(?:\((?:[^()\s]|\([^()\s]*\))*(?:\s+(?:"[^"]*"|'[^']*'))?\)|\[[^\[\]]*\])`)
)

// speaker builds the text that is spoken for a line. It is used for one line.
type speaker struct {
	out     strings.Builder
	last    rune // last character written
	dropped bool // text was omitted since the last character
}

// inline returns the text that is spoken for a line whose leading marks were removed. It returns ""
// if nothing of the line is spoken.
func inline(line string) string {
	var s speaker
	s.say(line, 0)
	return strings.TrimSpace(s.out.String())
}

// maxNesting is the maximum nesting of links.
const maxNesting = 4

// say writes the spoken form of a text. depth is the number of links around it, at most maxNesting.
// The time is linear in the length of the text, apart from the limits of the patterns.
func (s *speaker) say(line string, depth int) {
	// before is the character before the current one. It decides whether an address or emphasis may
	// begin.
	before := ' '
	for len(line) > 0 {
		c, size := utf8.DecodeRuneInString(line)
		n := s.special(line, c, before, depth)
		if n == 0 {
			s.write(c)
			n = size
		}
		before, _ = utf8.DecodeLastRuneInString(line[:n])
		line = line[n:]
	}
}

// special processes the Markdown at the beginning of line. c is its first character, and before is
// the character before it. special returns the number of bytes that it has processed, or 0 if the
// line begins with an ordinary character.
func (s *speaker) special(line string, c, before rune, depth int) int {
	// Each case consumes the Markdown that it recognizes. An unrecognized mark is an ordinary
	// character.
	switch c {
	case '\\':
		return s.escaped(line)
	case '`':
		return s.code(line)
	case '!':
		return image(line)
	case '[', ']':
		return s.bracket(line, depth)
	case '【':
		return s.drop(len(foreign.FindString(line)))
	case '<':
		return s.angle(line)
	case '&':
		return s.entity(entity.FindString(line))
	case '*', '_', '~':
		return s.emphasis(line, c, before)
	case '|':
		s.text(", ")
		return 1
	case 'h', 'H', 'w', 'W':
		if !isSpoken(before) {
			return s.address(address.FindString(line))
		}
	}
	return s.drop(emoji(line))
}

// image skips the "!" before an image. The alternative text of the image is then spoken like the
// text of a link.
func image(line string) int {
	if strings.HasPrefix(line, "![") {
		return 1
	}
	return 0
}

// escaped writes the character after a backslash. A backslash escapes only ASCII punctuation.
// Otherwise escaped returns 0.
func (s *speaker) escaped(line string) int {
	if len(line) < 2 || line[1] >= utf8.RuneSelf || !unicode.IsPunct(rune(line[1])) && !unicode.IsSymbol(rune(line[1])) {
		return 0
	}
	s.write(rune(line[1]))
	return 2
}

// entity writes the character of an HTML entity, and returns the length of the entity. found may be
// "".
func (s *speaker) entity(found string) int {
	s.text(html.UnescapeString(found))
	return len(found)
}

// code writes the text between backticks unchanged, except that it replaces underscores with
// spaces. Backticks that are not closed in the line are omitted.
func (s *speaker) code(line string) int {
	rest := strings.TrimLeft(line, "`")
	ticks := line[:len(line)-len(rest)]
	words, _, closed := strings.Cut(rest, ticks)
	if !closed {
		return s.drop(len(ticks))
	}
	s.text(strings.Map(func(r rune) rune {
		if r == '_' {
			return ' '
		}
		return r
	}, words))
	return 2*len(ticks) + len(words)
}

// bracket writes the text of a link. It omits a citation. For any other bracket, it omits only the
// bracket's mark, so that the content is spoken.
func (s *speaker) bracket(line string, depth int) int {
	end := closing(line)
	if end > 0 && depth < maxNesting {
		if to := target.FindString(line[end+1:]); to != "" {
			s.say(line[1:end], depth+1)
			return end + 1 + len(to)
		}
	}

	// A bracket that is neither link nor citation is omitted, but its content is spoken.
	if found := citation.FindString(line); found != "" {
		return s.drop(len(found))
	}
	return s.drop(1)
}

// closing returns the index of the bracket that closes the first bracket of line, or 0. It examines
// at most 1,000 bytes, so that many open brackets do not take quadratic time.
func closing(line string) int {
	depth := 0
	for i := range min(len(line), 1000) {
		switch line[i] {
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return 0
}

// angle writes the host of an address in angle brackets. It omits HTML tags. It returns 0 for a
// sign that belongs to neither, such as "less than".
func (s *speaker) angle(line string) int {
	if end := strings.IndexByte(line, '>'); end > 0 {
		if found := address.FindString(line[1:]); found != "" && len(found) == end-1 {
			s.address(found)
			return end + 1
		}
	}
	found := tag.FindString(line)
	if strings.HasPrefix(found, "<br") {
		s.text(" ")
	}
	return s.drop(len(found))
}

// address writes the host of a URL, without "www.". It returns the number of bytes of the URL,
// which does not include punctuation at its end.
func (s *speaker) address(found string) int {
	found = strings.TrimRight(found, ".,;:!?*_~…")
	if found == "" {
		return 0
	}

	// A full address is tedious to hear, so only its host is spoken.
	full := found
	if !strings.Contains(full, "://") {
		full = "https://" + full
	}
	if u, err := url.Parse(full); err == nil {
		s.text(strings.TrimPrefix(strings.ToLower(u.Hostname()), "www."))
	}
	return len(found)
}

// emphasis omits marks of emphasis. It keeps marks that are ordinary characters, such as a
// multiplication sign. An underscore inside of a word becomes a space.
func (s *speaker) emphasis(line string, c, before rune) int {
	rest := strings.TrimLeft(line, string(c))
	n := len(line) - len(rest)
	after, _ := utf8.DecodeRuneInString(rest)
	alone := unicode.IsSpace(before) && (unicode.IsSpace(after) || rest == "")

	// The characters on both sides decide: a mark between spaces or digits is not emphasis.
	switch {
	case c == '~' && n == 1, n == 1 && alone && rest != "", c == '*' && n == 1 && unicode.IsDigit(before) && unicode.IsDigit(after):
		return 0 // the mark is an ordinary character
	case c == '_' && isSpoken(before) && isSpoken(after):
		s.text(" ")
		return n
	}
	return s.drop(n)
}

// drop records that n bytes are not spoken, and returns n. write needs this to remove a space that
// is left over.
func (s *speaker) drop(n int) int {
	s.dropped = s.dropped || n > 0
	return n
}

// text writes a text without interpreting it.
func (s *speaker) text(text string) {
	for _, r := range text {
		s.write(r)
	}
}

// write writes a character. It reduces white space to one space, and removes the space between
// omitted text and a punctuation mark. It omits white space at the beginning.
func (s *speaker) write(r rune) {
	if unicode.IsSpace(r) {
		if s.last != 0 && s.last != ' ' {
			s.out.WriteByte(' ')
			s.last = ' '
		}
		return
	}

	// A citation before a full stop leaves a space, which must not be heard as a pause.
	if s.dropped && s.last == ' ' && strings.ContainsRune(".,;:!?)", r) {
		text := strings.TrimRight(s.out.String(), " ")
		s.out.Reset()
		s.out.WriteString(text)
	}
	s.dropped = false
	s.out.WriteRune(r)
	s.last = r
}

// emoji returns the length in bytes of the emojis at the beginning of a text, including their
// modifiers, or 0.
func emoji(text string) int {
	n := 0
	for i, r := range text {
		size := utf8.RuneLen(r)
		switch {
		case r == utf8.RuneError:
			return n
		case picture(r), n > 0 && joins(r):
			n = i + size
		default:
			return n
		}
	}
	return n
}

// joins reports whether a character only modifies the emoji next to it.
func joins(r rune) bool {
	return r == '\u200d' || r == '\ufe0e' || r >= 0x1F3FB && r <= 0x1F3FF || r >= 0xE0020 && r <= 0xE007F
}

// picture reports whether a character is an emoji or another symbol that is not spoken.
func picture(r rune) bool {
	return r >= 0x1F000 && r <= 0x1FAFF || r >= 0x2600 && r <= 0x27BF || r >= 0x2B00 && r <= 0x2BFF || r >= 0x231A && r <= 0x23FF ||
		r >= 0x2500 && r <= 0x25FF || r >= 0x2190 && r <= 0x21FF || r == '\ufe0f' || r == '\u20e3' || r == '\ufffc'
}
