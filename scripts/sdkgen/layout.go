package main

import (
	"strings"
	"unicode/utf8"
)

// width is the maximum line width of generated files.
const width = 100

// node is an expression to print. It is printed on one line if it fits. Otherwise, each of its
// parts is on a separate line. The generators use it for types, whose lines would otherwise be too
// long.
type node struct {
	text  string // the complete text; if it is set, the other fields are empty
	head  string
	parts []node
	tail  string
	// between is the text between parts on one line. The fields before and behind are the texts
	// around a part that is on a separate line.
	between, before, behind string
	bare                    bool // the first part has no text before it, and the method flat omits head and tail
}

// flat returns the text of the node on one line.
func (n node) flat() string {
	if n.text != "" {
		return n.text
	}
	parts := make([]string, len(n.parts))
	for i, part := range n.parts {
		parts[i] = part.flat()
	}
	if n.bare {
		return strings.Join(parts, n.between)
	}
	return n.head + strings.Join(parts, n.between) + n.tail
}

// layOut formats a node that begins at the given column of an indented line. The argument indent is
// the indentation of that line, and the argument step is the additional indentation of inner lines.
// The argument room is the number of columns that stay free on the last line.
func (n node) layOut(column, indent, step, room int) string {
	flat := n.flat()
	if n.text != "" || column+utf8.RuneCountInString(flat)+room <= width {
		return flat
	}
	if len(n.parts) == 1 && n.before == "" && n.behind == "" { // a node around one other node: the inner node is broken into lines
		return n.head + n.parts[0].layOut(column+utf8.RuneCountInString(n.head), indent, step, room+len(n.tail)) + n.tail
	}

	var out strings.Builder
	out.WriteString(n.head)
	for i, part := range n.parts {
		begin := strings.Repeat(" ", indent+step)
		if i > 0 || !n.bare {
			begin += n.before
		}
		out.WriteString("\n" + begin + part.layOut(len(begin), indent+step, step, len(n.behind)) + n.behind)
	}

	if n.tail != "" {
		out.WriteString("\n" + strings.Repeat(" ", indent) + n.tail)
	}
	return out.String()
}

// wrap breaks a description into lines of at most room columns; a longer word gets a line of its
// own. wrap fills the lines of paragraphs, and keeps the lines of lists and tables. Paragraphs are
// separated by empty lines.
func wrap(doc string, room int) []string {
	var out, words []string
	fill := func() {
		line := ""
		for _, word := range words {
			if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > room {
				out = append(out, line)
				line = ""
			}
			if line != "" {
				line += " "
			}
			line += word
		}
		if line != "" {
			out = append(out, line)
		}
		words = nil
	}

	for line := range strings.SplitSeq(doc, "\n") {
		bare := strings.TrimSpace(line)
		switch {
		case bare == "":
			fill()
			if len(out) > 0 && out[len(out)-1] != "" {
				out = append(out, "")
			}
		case strings.HasPrefix(bare, "|"):
			fill()
			out = append(out, bare)
		case strings.HasPrefix(bare, "- "), strings.HasPrefix(bare, "* "):
			fill()
			words = strings.Fields(bare)
		default:
			words = append(words, strings.Fields(bare)...)
		}
	}

	fill()
	for len(out) > 0 && out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return out
}
