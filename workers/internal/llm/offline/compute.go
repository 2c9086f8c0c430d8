package offline

import (
	"regexp"
	"strings"
)

// maxComputed bounds the messages that are read as computations, in bytes.
const maxComputed = 2000

// computation is what a message asks to have computed by a program.
type computation struct {
	title  string   // what it is, in words
	setup  []string // Python that comes first
	names  []string // of the results, one for each; none where the result is what the title names
	values []string // Python expressions of the results, one printed in a line each
	series string   // Python expression of what can be plotted: a list of numbers
	at     string   // Python expression of where these are; "" is 1, 2, 3 and so on
	plot   bool
	bars   bool
	line   bool // without a mark at each point
}

// theKinds are words for numbers that "and plot the squares" may speak of again.
const theKinds = `squares|cubes|primes|fibonacci|factorials|integers`

var (
	polite   = regexp.MustCompile(`(?i)^(?:(?:please|can you|could you|would you|hi|hello|(?:use|using|with) (?:python|code)(?: to)?)[\s,!:]+)+`)
	inPython = regexp.MustCompile(`(?i),? (?:please|(?:in|with|using) python)$`)
	toDo     = regexp.MustCompile(`(?i)^(?:compute|calculate|determine|find|evaluate|work out|what(?:'s|\s+is|\s+are)|how much is|give me|show me|tell me|list|print|show)\s+`)
	plotting = `(?:plot|chart|graph|draw|visuali[sz]e|(?:make|show|give me|create|draw|add)\s+(?:me\s+)?an?\s+(?:bar\s+|line\s+)?(?:plot|chart|graph))`
	// What stands behind "and plot": nothing in it says what to plot, but for what was computed.
	thenPlot = regexp.MustCompile(`(?i)(?:\s*[,;.]\s*(?:(?:and|then|also|with)\s+)*|\s+(?:(?:and|then|also|with)\s+)+)` + plotting +
		`(?:\s+(?:it|them|this|that|the|results?|numbers|values|series|all|of|as|an?|bars?|line|chart|plot|graph|too|please|for me|` +
		`to|into|png|file|image|` + theKinds + `))*\s*$`)
	kindWord  = regexp.MustCompile(`(?i)\b(?:` + theKinds + `)\b`)
	firstPlot = regexp.MustCompile(`(?i)^` + plotting + `\s+(?:(?:an?\s+|the\s+)?(?:bar\s+|line\s+)?(?:plot|chart|graph)\s+of\s+|of\s+)?`)
	asChart   = regexp.MustCompile(`(?i)(?:,? (?:as|in|to|into) (?:an? |the )?(?:(?:bar|line) )?(?:chart|plot|graph|png|file|image))+$`)
	asBars    = regexp.MustCompile(`(?i)\bbars?\b`)
)

// compute reads a message as a computation, a plot, or both. lack says what a plot needs that the message does not give.
func compute(message string) (c computation, lack string, ok bool) {
	if len(message) > maxComputed {
		return c, "", false
	}
	text := strings.TrimRight(strings.Join(strings.Fields(message), " "), " .!?=")
	text = inPython.ReplaceAllString(polite.ReplaceAllString(text, ""), "")
	plot, bars := false, false
	if at := thenPlot.FindStringIndex(text); at != nil && at[0] > 0 && saidBefore(text[:at[0]], text[at[0]:]) {
		plot, bars = true, asBars.MatchString(text[at[0]:])
		text = text[:at[0]]
	}
	if lead := firstPlot.FindString(text); lead != "" {
		plot, bars = true, bars || asBars.MatchString(lead) || asBars.MatchString(asChart.FindString(text))
		text = asChart.ReplaceAllString(text[len(lead):], "")
		if c, lack, ok = readFunction(text); ok || lack != "" {
			return c, lack, ok
		}
	}
	if c, lack, ok = readComputation(strings.TrimSpace(toDo.ReplaceAllString(text, "")), plot); ok && !c.line {
		c.plot, c.bars = plot, bars || c.bars
	}
	return c, lack, ok
}

// readComputation reads a text that is nothing but what is to be computed; to be plotted, it may be a function or a list.
func readComputation(text string, plot bool) (c computation, lack string, ok bool) {
	for _, read := range []func(string) (computation, bool){readStatistics, readSeries, readSingle, readExpression, readFormula} {
		if c, ok = read(text); ok {
			return c, "", true
		}
	}
	if !plot {
		return c, "", false
	}
	if c, lack, ok = readFunction(text); ok || lack != "" { // "compute sin(x) from 0 to 10 and plot it"
		return c, lack, ok
	}
	c, ok = readPlainList(text)
	return c, "", ok
}

// saidBefore reports whether all kinds of numbers that the end of a text speaks of are those of its beginning.
func saidBefore(beginning, end string) bool {
	for _, kind := range kindWord.FindAllString(end, -1) {
		if !strings.Contains(strings.ToLower(beginning), strings.TrimSuffix(strings.ToLower(kind), "s")) {
			return false
		}
	}
	return true
}

// statistics are what can be computed of numbers, in Python.
var statistics = map[string]string{
	"sum": "sum(numbers)", "total": "sum(numbers)", "product": "math.prod(numbers)",
	"mean": "statistics.mean(numbers)", "average": "statistics.mean(numbers)", "median": "statistics.median(numbers)",
	"minimum": "min(numbers)", "min": "min(numbers)", "smallest": "min(numbers)", "lowest": "min(numbers)",
	"maximum": "max(numbers)", "max": "max(numbers)", "largest": "max(numbers)", "highest": "max(numbers)",
	"standard deviation": "statistics.stdev(numbers)", "stdev": "statistics.stdev(numbers)", "variance": "statistics.variance(numbers)",
	"count": "len(numbers)", "number": "len(numbers)",
}

const aStatistic = `sum|total|product|mean|average|median|minimum|min|smallest|lowest|maximum|max|largest|highest|` +
	`(?:sample )?standard deviation|stdev|(?:sample )?variance|count|number`

var (
	howMany   = regexp.MustCompile(`(?i)^how many (.+?)(?: are(?: there)?)?((?: from| between| below| up to| under) .+?)?(?: are there)?$`)
	ofNumbers = regexp.MustCompile(`(?i)^(?:the )?((?:` + aStatistic + `)(?:(?:,? and |, ?)(?:the )?(?:` + aStatistic + `))*)(?: values?| numbers?)? (?:of|over|among|in) (.+)$`)
	listing   = regexp.MustCompile(`(?i),? and |, ?`)
)

// readStatistics reads "the mean and the median of …".
func readStatistics(text string) (computation, bool) {
	if m := howMany.FindStringSubmatch(text); m != nil {
		text = "number of " + m[1] + m[2]
	}
	m := ofNumbers.FindStringSubmatch(text)
	if m == nil {
		return computation{}, false
	}
	s, ok := readNumbers(m[2])
	if !ok {
		return computation{}, false
	}
	c := computation{title: s.title, setup: append([]string{"import math", "import statistics", ""}, s.setup...), series: "numbers", at: s.at}
	for _, name := range listing.Split(strings.ToLower(m[1]), -1) {
		name = strings.TrimPrefix(strings.TrimPrefix(name, "the "), "sample ")
		c.values = append(c.values, statistics[name])
		if name == "standard deviation" || name == "stdev" || name == "variance" {
			name = "sample " + name // there are two of them, and this says which
		}
		c.names = append(c.names, name)
	}
	return c, true
}

// readSeries reads numbers that have a name, such as "the first ten primes".
func readSeries(text string) (computation, bool) {
	s, ok := readNamed(text)
	if !ok {
		return computation{}, false
	}
	return computation{
		title: s.title, setup: append([]string{"import math", ""}, s.setup...), values: []string{`", ".join(map(str, numbers))`}, series: "numbers", at: s.at,
	}, true
}

// readPlainList reads nothing but numbers, which are worth a plot alone.
func readPlainList(text string) (computation, bool) {
	s, ok := readList(text)
	if !ok {
		return computation{}, false
	}
	return computation{title: s.title, setup: s.setup, values: []string{`", ".join(map(str, numbers))`}, series: "numbers"}, true
}

var (
	rootOf      = regexp.MustCompile(`(?i)^(?:the )?(?:square root of |sqrt ?\(? ?)(\d+(?:\.\d+)?)\)?$`)
	factorialOf = regexp.MustCompile(`(?i)^(?:the )?(?:factorial of (\d{1,4})|(\d{1,4}) ?(?:!|factorial))$`)
	nth         = regexp.MustCompile(`(?i)^(?:the )?(\d{1,6})(?:st|nd|rd|th) (prime|fibonacci)(?: number)?$`)
)

// result is a computation of one number.
func result(title, value string, setup ...string) (computation, bool) {
	setup = append(append([]string{"import math", ""}, setup...), "result = "+value)
	return computation{title: title, setup: setup, values: []string{"result"}, series: "[result]", bars: true}, true
}

// readSingle reads what has one number as its value.
func readSingle(text string) (computation, bool) {
	if m := rootOf.FindStringSubmatch(text); m != nil {
		return result("the square root of "+m[1], "math.sqrt("+normal(m[1])+")")
	}
	if m := factorialOf.FindStringSubmatch(text); m != nil {
		n := normal(m[1] + m[2])
		return result("the factorial of "+n, "math.factorial("+n+")")
	}
	m := nth.FindStringSubmatch(text)
	if m == nil {
		return computation{}, false
	}
	s, ok := firstOf(strings.ToLower(m[2])+" numbers", m[1])
	if !ok {
		return computation{}, false
	}
	c, ok := result("the "+strings.TrimPrefix(strings.ToLower(m[0]), "the "), "numbers[-1]", s.setup...)
	c.series, c.bars = "numbers", false
	return c, ok
}

// readExpression reads a calculation that is all of a text.
func readExpression(text string) (computation, bool) {
	e, ok := findExpression(text)
	if !ok || signs.Replace(strings.TrimSpace(inSigns(text))) != e {
		return computation{}, false
	}
	c, ok := result(e, strings.ReplaceAll(e, "^", "**"))
	c.setup = c.setup[2:] // it has no functions
	return c, ok
}

// readFormula reads a calculation with functions, such as "sin(1) + 2 pi".
func readFormula(text string) (computation, bool) {
	text = strings.ToLower(text)
	value, hasX, ok := translate(text)
	if !ok || hasX || !strings.ContainsAny(value, "(*/+-") || !strings.ContainsAny(value, "abcdefghijklmnopqrstuvwxyz") {
		return computation{}, false
	}
	return result(text, value)
}
