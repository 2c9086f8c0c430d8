package retrieval

import (
	"strings"
)

// Section is a part of a document under a heading.
type Section struct {
	Heading    string
	Paragraphs []string
}

// Text is all that the section says, its heading left out.
func (s Section) Text() string { return strings.Join(s.Paragraphs, "\n") }

// reader makes sections of the source of a manual page, as far as they are text: it knows the macros of man(7) that carry words, and
// leaves out tables, definitions and what it does not know.
type reader struct {
	title    string
	sections []Section
	words    []string // of the paragraph that is being read
	heading  bool     // the next line is one
	until    string   // lines are left out up to this one
}

// readPage gives the title and sections of a page; none when it is written in other macros or only refers to another page.
func readPage(source string) (title string, sections []Section) {
	var r reader
	for line := range strings.Lines(source) {
		r.line(strings.TrimRight(line, "\r\n"))
	}
	r.paragraph()
	return r.title, r.sections
}

// blocks that are left out, and the lines that end them.
var blocks = map[string]string{"de": "..", "TS": ".TE", "EQ": ".EN", "PS": ".PE", "ig": ".."}

func (r *reader) line(line string) {
	switch {
	case r.until != "":
		if strings.HasPrefix(line, r.until) {
			r.until = ""
		}
	case strings.HasPrefix(line, "."), strings.HasPrefix(line, "'"):
		macro, rest, _ := strings.Cut(strings.TrimLeft(line[1:], " \t"), " ")
		r.macro(macro, rest)
	case strings.TrimSpace(line) == "":
		r.paragraph()
	default:
		r.text(unescape(line))
	}
}

func (r *reader) macro(name, rest string) {
	if end, is := blocks[name]; is {
		r.until = end
		return
	}
	switch name {
	case "TH":
		if args := arguments(rest); len(args) > 1 {
			r.title = strings.ToLower(unescape(args[0])) + "(" + unescape(args[1]) + ")"
		}
	case "SH":
		r.paragraph()
		if r.heading = rest == ""; !r.heading {
			r.open(unescape(strings.Join(arguments(rest), " ")))
		}
	case "SS", "PP", "P", "LP", "TP", "HP", "sp", "RS", "RE", "nf", "fi", "EX", "EE":
		r.paragraph()
		if name == "SS" {
			r.text(unescape(strings.Join(arguments(rest), " ")))
			r.paragraph()
		}
	case "IP":
		r.paragraph()
		if args := arguments(rest); len(args) > 0 && !strings.HasPrefix(args[0], `\(`) {
			r.text(unescape(args[0]))
		}
	case "B", "I", "SM", "SB":
		r.text(unescape(strings.Join(arguments(rest), " ")))
	case "BR", "RB", "IR", "RI", "BI", "IB":
		r.text(unescape(strings.Join(arguments(rest), "")))
	}
}

func (r *reader) text(text string) {
	switch {
	case strings.TrimSpace(text) == "":
	case r.heading:
		r.heading = false
		r.open(text)
	case len(r.sections) > 0:
		r.words = append(r.words, strings.Fields(text)...)
	}
}

func (r *reader) open(heading string) {
	r.sections = append(r.sections, Section{Heading: strings.Join(strings.Fields(heading), " ")})
}

func (r *reader) paragraph() {
	if len(r.words) > 0 {
		last := &r.sections[len(r.sections)-1]
		last.Paragraphs = append(last.Paragraphs, strings.Join(r.words, " "))
	}
	r.words = nil
}

// arguments are those of a macro: apart by spaces, within quotes with them.
func arguments(rest string) []string {
	var args []string
	for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimLeft(rest, " \t") {
		if rest[0] == '"' {
			quoted, behind, _ := strings.Cut(rest[1:], `"`)
			args, rest = append(args, quoted), behind
			continue
		}
		end := 0
		for end < len(rest) && rest[end] != ' ' && rest[end] != '\t' {
			if rest[end] == '\\' && end+1 < len(rest) {
				end++ // an escaped space is part of it
			}
			end++
		}
		args, rest = append(args, rest[:end]), rest[end:]
	}
	return args
}

// characters are the names of those that manual pages use most.
var characters = map[string]string{
	"aq": "'", "dq": `"`, "bu": "•", "em": "—", "en": "–", "lq": "“", "rq": "”", "oq": "‘", "cq": "’", "co": "©", "ga": "`", "ha": "^",
	"ti": "~", "rs": `\`, "mi": "-", "hy": "-", "->": "→", "<=": "≤", ">=": "≥", "mu": "×", "+-": "±", "Aq": "'", "R": "®", "Tm": "™",
}

// unescape gives the text of a line: without fonts and sizes, characters for their names.
func unescape(line string) string {
	var b strings.Builder
	for line != "" {
		text, rest, found := strings.Cut(line, `\`)
		b.WriteString(text)
		if !found || rest == "" {
			break
		}
		kind := rest[0]
		line = rest[1:]
		switch kind {
		case '-', '.', '\'', '`':
			b.WriteByte(kind)
		case 'e', '\\':
			b.WriteByte('\\')
		case ' ', '~', '0', 't':
			b.WriteByte(' ')
		case '"', '#':
			return b.String()
		case '(', '[', '*':
			if kind != '(' && kind != '[' {
				line = rest
			}
			var name string
			name, line = named(line, kind)
			b.WriteString(characters[name])
		case 'f', 'm', 'M', 'n', 'k', 'F':
			_, line = named(line, kind)
		case 's':
			line = strings.TrimLeft(line, "+-0123456789")
		}
	}
	return b.String()
}

// named is the name that an escape takes: one character, two behind a parenthesis, or those up to a bracket.
func named(rest string, kind byte) (name, behind string) {
	if kind == '*' {
		rest = rest[1:]
	}
	switch {
	case kind == '(':
		return rest[:min(2, len(rest))], rest[min(2, len(rest)):]
	case kind == '[':
		name, behind, _ = strings.Cut(rest, "]")
		return name, behind
	case strings.HasPrefix(rest, "("):
		return rest[1:min(3, len(rest))], rest[min(3, len(rest)):]
	case strings.HasPrefix(rest, "["):
		name, behind, _ = strings.Cut(rest[1:], "]")
		return name, behind
	}
	return rest[:min(1, len(rest))], rest[min(1, len(rest)):]
}
