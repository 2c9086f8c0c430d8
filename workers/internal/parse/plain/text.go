package plain

import (
	"context"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/workers/internal/document"
	"parley/workers/internal/parse"
	"parley/workers/internal/parse/charset"
)

// Text reads plain text, in which empty lines separate paragraphs. It recognizes headings, lists
// and aligned columns by their form. Text fails only if the text exceeds the limits of out, or if
// ctx ends.
func Text(ctx context.Context, in parse.Input, out *parse.Writer) (document.Info, error) {
	text, _ := charset.Decode(in.Content, in.Charset)
	return document.Info{}, writeText(ctx, text, out)
}

// writeText writes a text paragraph by paragraph. Form feeds and other line breaks count as
// newlines. It checks ctx every 1,000 passages.
func writeText(ctx context.Context, text string, out *parse.Writer) error {
	text = parse.Clean(parse.Lines(text))
	var lines []string
	passages := 0
	for l := range strings.SplitSeq(text, "\n") {
		l = strings.TrimRightFunc(l, unicode.IsSpace)
		// A file may have no empty lines. So the number of lines of a passage is limited, to bound
		// its memory.
		if l != "" && len(lines) < 10_000 {
			lines = append(lines, l)
			continue
		}
		if err := passage(lines, out); err != nil {
			return err
		}
		lines = lines[:0]
		if l != "" {
			lines = append(lines, l)
		}
		if passages++; passages%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return passage(lines, out)
}

// passage writes consecutive lines that have no empty line between them: as a list, verbatim text
// or a paragraph. If the lines begin with a heading, passage writes the heading first. The lines of
// a paragraph are joined only if they look wrapped. Otherwise they remain lines, as in an address.
func passage(lines []string, out *parse.Writer) error {
	if len(lines) == 0 {
		return nil
	}

	// A heading may be followed by text without an empty line between them.
	if level, title, rest, ok := heading(lines); ok {
		if err := out.Heading(level, title); err != nil {
			return err
		}
		return passage(rest, out)
	}

	switch {
	case listed(lines):
		return items(lines, out)
	case aligned(lines):
		return out.Verbatim(strings.Join(lines, "\n"))
	case wrapped(lines):
		return out.Paragraph(joined(lines))
	default:
		return out.Paragraph(strings.Join(lines, "\n"))
	}
}

// numbered matches a numbered heading such as "2.1 Scope" or "Chapter 4: Findings".
var numbered = regexp.MustCompile(`^(?:(?:[1-9][0-9]?\.){1,4}[1-9]?[0-9]?|(?i:chapter|section|part|appendix|kapitel|abschnitt|teil|chapitre|capítulo) (?:[0-9]{1,3}|[IVXLC]{1,6}|[A-Z])[.:]?)\s+\p{Lu}[^.!?;]*$`)

// heading separates a heading, which is underlined or numbered, from the lines that follow it. It
// returns the heading's level and text, and these lines. The result ok is false if the lines do not
// begin with a heading. Levels begin at 1; the kind of the underline or the depth of the number
// determines the level.
func heading(lines []string) (level int, title string, rest []string, ok bool) {
	first := strings.TrimSpace(lines[0])
	length := utf8.RuneCountInString(first)
	if length == 0 || length > 100 {
		return 0, "", nil, false
	}

	// An underline is about as long as its heading. A line of dashes with another length separates
	// sections.
	if len(lines) > 1 && !strings.ContainsAny(lines[0][:1], " \t") {
		if mark := underline(lines[1]); mark != 0 && abs(utf8.RuneCountInString(lines[1])-length) <= max(2, length/2) && underline(first) == 0 {
			return strings.IndexByte("=-~^", mark) + 1, first, lines[2:], true
		}
	}

	// A numbered line is a heading only if it stands alone. Within a paragraph, it is part of the
	// text.
	if len(lines) == 1 && length <= 80 && numbered.MatchString(first) {
		number, _, _ := strings.Cut(first, " ")
		return 1 + strings.Count(strings.Trim(number, "."), "."), first, nil, true
	}
	return 0, "", nil, false
}

// underline returns the character of a line that can underline a heading, because the line consists
// only of this character. For other lines it returns 0.
func underline(l string) byte {
	if len(l) < 3 || !strings.ContainsRune("=-~^", rune(l[0])) || strings.Trim(l, l[:1]) != "" {
		return 0
	}
	return l[0]
}

func abs(n int) int { return max(n, -n) }

// bullet matches the beginning of a list item.
var bullet = regexp.MustCompile(`^\s*(?:[-*•·‣◦▪–]|\(?[0-9]{1,3}[.)]|\(?[a-z][.)])\s+\S`)

// listed reports whether lines are a list: the first line begins an item, and each further line
// begins an item or is indented.
func listed(lines []string) bool {
	if !bullet.MatchString(lines[0]) {
		return false
	}
	for _, l := range lines[1:] {
		if !bullet.MatchString(l) && !strings.HasPrefix(l, " ") && !strings.HasPrefix(l, "\t") {
			return false
		}
	}
	return true
}

// items writes the items of a list. It removes bullets but keeps numbers. The function listed must
// return true for the argument lines, so each item begins with a line that bullet matches.
func items(lines []string, out *parse.Writer) error {
	from := 0
	for i := 1; i <= len(lines); i++ {
		if i < len(lines) && !bullet.MatchString(lines[i]) {
			continue
		}
		item := strings.TrimSpace(joined(lines[from:i]))
		item = strings.TrimLeft(item, "-*•·‣◦▪– \t")
		if err := out.Item(item); err != nil {
			return err
		}
		from = i
	}
	return nil
}

// aligned reports whether lines use spaces for indentation or columns. Such spaces must be kept. A
// single line is never aligned.
func aligned(lines []string) bool {
	if len(lines) < 2 {
		return false
	}
	indented, columns := 0, 0
	for _, l := range lines {
		if strings.HasPrefix(l, "    ") || strings.HasPrefix(l, "\t") {
			indented++
		}
		body := strings.TrimSpace(l)
		if strings.Contains(body, "   ") || strings.Contains(body, "\t") || strings.HasPrefix(body, "+--") || strings.HasPrefix(body, "|") {
			columns++
		}
	}
	return columns*2 > len(lines) || indented == len(lines) && uneven(lines)
}

// uneven reports whether lines are not an indented paragraph, because their indentations differ or
// because they are not wrapped text.
func uneven(lines []string) bool {
	first := indent(lines[0])
	for _, l := range lines[1:] {
		if indent(l) != first {
			return true
		}
	}
	return !wrapped(lines)
}

// indent returns the number of spaces and tabs at the beginning of a line.
func indent(l string) int { return len(l) - len(strings.TrimLeft(l, " \t")) }

// wrapped reports whether lines are a single paragraph that was wrapped. In such a paragraph, all
// lines except the last are about equally long. The longest line must have 40 to 160 columns. A
// single line counts as wrapped.
func wrapped(lines []string) bool {
	if len(lines) == 1 {
		return true
	}
	longest := 0
	for _, l := range lines {
		longest = max(longest, width(l))
	}

	if longest < 40 || longest > 160 {
		return false
	}
	short := 0
	for _, l := range lines[:len(lines)-1] {
		if width(l)*10 < longest*6 {
			short++
		}
	}
	return short*5 <= len(lines)-1
}

// width returns the approximate width of a line in columns. An East Asian character has the width
// of two columns.
func width(l string) int {
	n := 0
	for _, r := range l {
		if n++; ideographic(r) {
			n++
		}
	}
	return n
}

// ideographic reports whether a character is East Asian and twice as wide as a letter.
func ideographic(r rune) bool {
	return r >= 0x2E80 && r <= 0x9FFF || r >= 0xF900 && r <= 0xFAFF || r >= 0xFF00 && r <= 0xFF60 || r >= 0x20000 && r <= 0x3FFFF
}

// joined joins wrapped lines with spaces. It adds no space after a hyphen that follows a letter and
// precedes a lower-case letter, and none between characters of scripts without spaces. A hyphen at
// the end of a line is kept, because it may belong to the word.
func joined(lines []string) string {
	var b strings.Builder
	var last, before rune
	for _, l := range lines {
		l = strings.TrimSpace(l)
		first, _ := utf8.DecodeRuneInString(l)
		joins := last == '-' && unicode.IsLetter(before) && unicode.IsLower(first) || ideographic(last) && ideographic(first)
		if b.Len() > 0 && l != "" && !joins {
			b.WriteByte(' ')
		}
		b.WriteString(l)
		var n int
		last, n = utf8.DecodeLastRuneInString(l)
		before, _ = utf8.DecodeLastRuneInString(l[:len(l)-n])
	}
	return b.String()
}
