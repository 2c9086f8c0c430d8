package main

import (
	"regexp"
	"slices"
	"strings"
)

// literal is a string or a template in a script, with its surroundings.
type literal struct {
	value string // the text, in which gap stands for each inserted value

	// The nearest call or object around the literal: for a call, the function's name and the number
	// of the argument; for an object, the name of the property.
	function string
	argument int
	property string
	element  string // JSX element that has the literal as an attribute or a child
}

// gap stands for a value that is inserted into a template.
const gap = "⟨…⟩"

// frame describes a bracket or template that has been opened before the current position and not
// yet closed.
type frame struct {
	open     byte // one of ( [ { ` and $, which begins a value in a template
	function string
	argument int
	property string
	element  string          // if a call that creates an element is open: the name of the element
	text     strings.Builder // for a template: its text
}

// lexer splits a script into tokens and collects its literals. The script must be in the form that
// esbuild prints, because the lexer does not handle all of JavaScript. For example, it does not
// handle JSX.
type lexer struct {
	in    string
	at    int
	stack []*frame
	last  string // the last token that was read
	chain string // the name that was read last, with its qualifiers, such as console.warn
	found []literal
}

// literals returns the strings and templates in a script, in order. Names of properties and
// operands of comparisons are left out.
func literals(script string) []literal {
	l := &lexer{in: script, stack: []*frame{{open: '{'}}}
	for l.at < len(l.in) {
		l.next()
	}
	return l.found
}

var (
	space = regexp.MustCompile(`^(\s+|//[^\n]*|/\*(?s:.*?)\*/)`)
	name  = regexp.MustCompile(`^[\p{L}_$#][\p{L}\p{N}_$]*`)
	plain = regexp.MustCompile(`^("(?:[^"\\\n]|\\(?s:.))*"|'(?:[^'\\\n]|\\(?s:.))*')`)
	regex = regexp.MustCompile(`^/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*`)
	colon = regexp.MustCompile(`^\s*:`)

	// creates matches the names of functions that create elements.
	creates = regexp.MustCompile(`^(h|jsxs?)$`)

	// comparedTo and compares match the code before and after a string that is an operand of a
	// comparison. Such a string is not shown to users.
	comparedTo = regexp.MustCompile(`[=!]==?\s*$`)
	compares   = regexp.MustCompile(`^\s*([=!]==?|in\b)`)
)

// next reads the next token.
func (l *lexer) next() {
	rest := l.in[l.at:]
	if blank := space.FindString(rest); blank != "" {
		l.at += len(blank)
		return
	}
	if quoted := plain.FindString(rest); quoted != "" {
		l.string(quoted)
		return
	}
	if found := name.FindString(rest); found != "" {
		l.name(found)
		return
	}
	if found := regex.FindString(rest); found != "" && !l.afterValue() {
		l.take(found)
		l.last = "0" // any token that is a value
		return
	}
	l.bracket(rest[0])
}

// take moves past a token and remembers it.
func (l *lexer) take(token string) {
	l.at += len(token)
	l.last = token
}

// top returns the innermost open bracket or template.
func (l *lexer) top() *frame { return l.stack[len(l.stack)-1] }

// isKey reports whether the token that ends at an offset is the name of a property in an object.
func (l *lexer) isKey(end int) bool {
	return l.top().open == '{' && (l.last == "{" || l.last == ",") && colon.MatchString(l.in[end:])
}

// string reads a string. The string is added to the result unless it is the name of a property or
// the operand of a comparison.
func (l *lexer) string(quoted string) {
	value := unescape(quoted[1 : len(quoted)-1])
	if f := l.top(); f.argument == 0 && creates.MatchString(f.function) {
		f.element = value
	}
	switch end := l.at + len(quoted); {
	case l.isKey(end):
		l.top().property = value
	case !comparedTo.MatchString(l.in[max(0, l.at-6):l.at]) && !compares.MatchString(l.in[end:]):
		l.add(value)
	}
	l.take(quoted)
}

// name reads a name. Names that are joined by dots form a chain.
func (l *lexer) name(found string) {
	if l.isKey(l.at + len(found)) {
		l.top().property = found
	}
	if l.last == "." {
		l.chain += "." + found
	} else {
		l.chain = found
	}
	l.take(found)
}

// keyword matches the keywords after which a value begins, so that a slash begins a regular
// expression.
var keyword = regexp.MustCompile(`^(return|typeof|case|in|of|do|else|void|await|yield|new|delete|throw|if|while|for|switch|catch)$`)

// afterValue reports whether the last token ends a value. A slash after a value divides, and a
// parenthesis after a value begins a call.
func (l *lexer) afterValue() bool {
	if name.MatchString(l.last) {
		return !keyword.MatchString(l.last)
	}
	return l.last != "" && strings.ContainsAny(l.last[len(l.last)-1:], `)]}"'0123456789`+"`")
}

// bracket reads a bracket, a separator or the beginning of a template, and updates the stack of
// open brackets.
func (l *lexer) bracket(c byte) {
	switch c {
	case '(':
		f := &frame{open: c}
		if name.MatchString(l.last) && l.afterValue() {
			f.function = l.chain
		}
		l.stack = append(l.stack, f)
	case '[', '{':
		l.stack = append(l.stack, &frame{open: c})
	case '`':
		l.stack = append(l.stack, &frame{open: c})
		l.take("`")
		l.template()
		return
	case ')', ']', '}':
		open := l.top().open
		if len(l.stack) > 1 {
			l.stack = l.stack[:len(l.stack)-1]
		}
		if open == '$' {
			l.take("}")
			l.template()
			return
		}
	case ',':
		l.top().argument++
		l.top().property = ""
	case ';':
		l.top().property = ""
	}
	l.take(string(c))
}

// template reads a template up to its end or to the next value inserted into it.
func (l *lexer) template() {
	f := l.top()
	for l.at < len(l.in) {
		rest := l.in[l.at:]
		switch {
		case rest[0] == '\\' && len(rest) > 1:
			f.text.WriteString(unescape(rest[:2]))
			l.at += 2
		case rest[0] == '`':
			l.stack = l.stack[:len(l.stack)-1]
			l.add(f.text.String())
			l.take("`")
			return
		case strings.HasPrefix(rest, "${"):
			f.text.WriteString(gap)
			l.stack = append(l.stack, &frame{open: '$'})
			l.at++
			l.take("{")
			return
		default:
			f.text.WriteByte(rest[0])
			l.at++
		}
	}
}

// add adds a literal and its surroundings to the result. The surroundings are searched from the
// innermost bracket outwards, up to the nearest call.
func (l *lexer) add(value string) {
	found := literal{value: value}
	for _, f := range slices.Backward(l.stack) {
		if f.open == '(' && f.function != "" {
			if found.property == "" {
				found.function, found.argument = f.function, f.argument
			}
			found.element = f.element
			break
		}
		if f.open == '{' {
			if found.property != "" || f.property == "" {
				break
			}
			found.property = f.property
		}
	}
	l.found = append(l.found, found)
}

// unescape replaces the escape sequences of line breaks and quotes. esbuild prints all other
// characters without escape sequences.
func unescape(text string) string {
	return strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\"`, `"`, `\'`, "'", "\\`", "`", `\$`, "$", `\\`, `\`).Replace(text)
}
