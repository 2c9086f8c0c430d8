package offline

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// functions are those of x that can be plotted, as Python has them.
var functions = map[string]string{
	"sin": "math.sin", "cos": "math.cos", "tan": "math.tan", "asin": "math.asin", "acos": "math.acos", "atan": "math.atan",
	"sinh": "math.sinh", "cosh": "math.cosh", "tanh": "math.tanh", "exp": "math.exp", "ln": "math.log", "log": "math.log",
	"log10": "math.log10", "log2": "math.log2", "sqrt": "math.sqrt", "abs": "abs",
}

var (
	theFunction = regexp.MustCompile(`(?i)^(?:the )?(?:function )?(?:(?:y|f\(x\)) ?= ?)?`)
	inRange     = regexp.MustCompile(`(?i)^(.+?),? (?:for )?(?:x )?(?:from|between|in) (\S.*?) (?:to|and) (\S.*)$`)
)

// readFunction reads "sin(x) from 0 to 10", what stands behind "plot". lack asks for the range.
func readFunction(text string) (c computation, lack string, ok bool) {
	text = strings.ToLower(theFunction.ReplaceAllString(text, ""))
	m := inRange.FindStringSubmatch(text)
	if m == nil {
		if _, hasX, ok := translate(text); ok && hasX {
			return c, fmt.Sprintf("To plot %s I need to know from where to where: write it as “plot %s from 0 to 10”.", text, text), false
		}
		return c, "", false
	}
	body, hasX, ok := translate(m[1])
	from, fromX, okFrom := translate(m[2])
	to, toX, okTo := translate(m[3])
	if !ok || !hasX || !okFrom || fromX || !okTo || toX {
		return c, "", false
	}
	return computation{
		title: fmt.Sprintf("%s from %s to %s", m[1], m[2], m[3]), plot: true, line: true, series: "numbers", at: "points",
		names: []string{"lowest value", "highest value"},
		setup: []string{
			"import math", "",
			"begin, end = " + from + ", " + to,
			"points = [begin + (end - begin) * n / 500 for n in range(501)]",
			"numbers = []",
			"for x in points:",
			"    try:",
			"        numbers.append(float(" + body + "))",
			"    except (ValueError, ZeroDivisionError, OverflowError, TypeError):",
			"        numbers.append(math.nan)  # it has no value here",
			"known = [y for y in numbers if math.isfinite(y)]",
		},
		values: []string{`min(known, default="none")`, `max(known, default="none")`},
	}, "", true
}

// translate gives the Python of an expression of numbers, x, pi, e and functions, and whether x is in it.
func translate(text string) (python string, hasX, ok bool) {
	t := &translator{rest: strings.TrimSpace(signs.Replace(strings.ReplaceAll(text, "**", "^")))}
	if len(text) > maxExpression || !t.sum() || t.rest != "" {
		return "", false, false
	}
	return t.out.String(), t.hasX, true
}

// translator reads sums of products of powers, and writes them down as Python has them.
type translator struct {
	rest  string
	out   strings.Builder
	hasX  bool
	depth int
}

// take takes one of some signs, if it comes next.
func (t *translator) take(signs string) (byte, bool) {
	t.rest = strings.TrimLeft(t.rest, " ")
	if t.rest == "" || strings.IndexByte(signs, t.rest[0]) < 0 {
		return 0, false
	}
	sign := t.rest[0]
	t.rest = strings.TrimLeft(t.rest[1:], " ")
	return sign, true
}

func (t *translator) sum() bool {
	if t.depth++; t.depth > maxDepth {
		return false
	}
	defer func() { t.depth-- }()
	if sign, ok := t.take("-+"); ok {
		t.out.WriteByte(sign)
	}
	if !t.product() {
		return false
	}
	for sign, ok := t.take("+-"); ok; sign, ok = t.take("+-") {
		t.out.WriteString(" " + string(sign) + " ")
		if !t.product() {
			return false
		}
	}
	return true
}

func (t *translator) product() bool {
	if !t.power() {
		return false
	}
	for {
		if sign, ok := t.take("*/"); ok {
			t.out.WriteString(" " + string(sign) + " ")
		} else if t.rest != "" && (t.rest[0] == '(' || unicode.IsLetter(rune(t.rest[0]))) {
			t.out.WriteString(" * ") // 2x, 3 sin(x)
		} else {
			return true
		}
		if !t.power() {
			return false
		}
	}
}

func (t *translator) power() bool {
	if !t.atom() {
		return false
	}
	if _, ok := t.take("^"); !ok {
		return true
	}
	if t.depth++; t.depth > maxDepth {
		return false
	}
	defer func() { t.depth-- }()
	t.out.WriteString("**")
	if _, ok := t.take("-"); ok {
		t.out.WriteByte('-')
	}
	return t.power()
}

var aWord = regexp.MustCompile(`^[a-z]+(?:10|2)?`)

func (t *translator) atom() bool {
	if n := len(t.rest) - len(strings.TrimLeft(t.rest, "0123456789.")); n > 0 {
		digits := t.rest[:n]
		if !number.MatchString(digits) {
			return false
		}
		t.out.WriteString(normal(digits))
		t.rest = t.rest[n:]
		return true
	}
	if _, ok := t.take("("); ok {
		return t.inBrackets("(")
	}
	word := aWord.FindString(t.rest)
	switch word {
	case "x", "x2", "x10": // x2 is x and a number behind it, which is no product
		t.hasX = true
		t.out.WriteString("x")
		t.rest = t.rest[1:]
		return word == "x"
	case "pi", "e":
		t.out.WriteString("math." + word)
		t.rest = t.rest[len(word):]
		return true
	}
	called, known := functions[word]
	if !known {
		return false
	}
	t.rest = t.rest[len(word):]
	if _, ok := t.take("("); !ok {
		return false
	}
	return t.inBrackets(called + "(")
}

// inBrackets reads what stands in brackets that were opened, up to where they are closed.
func (t *translator) inBrackets(open string) bool {
	t.out.WriteString(open)
	if !t.sum() {
		return false
	}
	t.out.WriteByte(')')
	_, ok := t.take(")")
	return ok
}
