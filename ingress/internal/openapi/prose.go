package openapi

import "strings"

// Prose is Markdown as the document's descriptions use it: headings, paragraphs, lists and tables.
type Prose []Block

// Block is a piece of prose. Exactly one of its fields is set.
type Block struct {
	Heading   *Heading
	Paragraph []Span
	List      [][]Span
	Table     [][][]Span // rows of cells; the first row is the heads
}

// Heading is a heading and the anchor that leads to it.
type Heading struct{ Text, Anchor string }

// Span is a run of text: code, or strong, or a link if Link is set.
type Span struct {
	Text, Link   string
	Code, Strong bool
}

// parseProse reads Markdown.
func parseProse(text string) Prose {
	var out Prose
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		lines := strings.Split(strings.TrimSpace(block), "\n")
		switch {
		case lines[0] == "":
		case strings.HasPrefix(lines[0], "## "):
			title := strings.TrimPrefix(lines[0], "## ")
			out = append(out, Block{Heading: &Heading{title, anchor(title)}})
		case strings.HasPrefix(lines[0], "|"):
			out = append(out, Block{Table: parseTable(lines)})
		case strings.HasPrefix(lines[0], "- "):
			out = append(out, Block{List: parseList(lines)})
		default:
			out = append(out, Block{Paragraph: ParseSpans(strings.Join(lines, " "))})
		}
	}
	return out
}

func parseTable(lines []string) [][][]Span {
	var rows [][][]Span
	for _, line := range lines {
		if strings.Trim(line, "|-: ") == "" {
			continue // the rule below the heads
		}
		var cells [][]Span
		for cell := range strings.SplitSeq(strings.Trim(strings.TrimSpace(line), "|"), "|") {
			cells = append(cells, ParseSpans(strings.TrimSpace(cell)))
		}
		rows = append(rows, cells)
	}
	return rows
}

func parseList(lines []string) [][]Span {
	var items []string
	for _, line := range lines {
		if item, begins := strings.CutPrefix(line, "- "); begins {
			items = append(items, item)
		} else if len(items) > 0 {
			items[len(items)-1] += " " + strings.TrimSpace(line)
		}
	}
	out := make([][]Span, len(items))
	for i, item := range items {
		out[i] = ParseSpans(item)
	}
	return out
}

// ParseSpans reads what stands within a line: `code`, **strong** and [links](to).
func ParseSpans(text string) []Span {
	var out []Span
	for text != "" {
		span, rest, found := leadingSpan(text)
		if found {
			out, text = append(out, span), rest
			continue
		}
		next := strings.IndexAny(text[1:], "`*[") + 1
		if next == 0 {
			next = len(text)
		}
		if last := len(out) - 1; last >= 0 && out[last] == (Span{Text: out[last].Text}) {
			out[last].Text += text[:next]
		} else {
			out = append(out, Span{Text: text[:next]})
		}
		text = text[next:]
	}
	return out
}

func leadingSpan(text string) (span Span, rest string, found bool) {
	if inner, begins := strings.CutPrefix(text, "`"); begins {
		code, rest, ends := strings.Cut(inner, "`")
		return Span{Text: code, Code: true}, rest, ends
	}
	if inner, begins := strings.CutPrefix(text, "**"); begins {
		strong, rest, ends := strings.Cut(inner, "**")
		return Span{Text: strings.ReplaceAll(strong, "`", ""), Strong: true}, rest, ends
	}
	if inner, begins := strings.CutPrefix(text, "["); begins {
		label, rest, _ := strings.Cut(inner, "](")
		link, rest, ends := strings.Cut(rest, ")")
		return Span{Text: label, Link: link}, rest, ends
	}
	return Span{}, "", false
}

// anchor makes a fragment of a title: lower case, hyphens for all but letters and digits.
func anchor(title string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(title), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}), "-")
}
