package offline

import (
	"fmt"
	"regexp"
	"strings"
)

const (
	maxComputed = 2000       // maximum size in bytes of a message that may be a computation
	plotFile    = "plot.png" // name of the image file with the plot
)

// computation is the computation that a message requests. It computes statistics of a list of
// numbers, or only lists the numbers.
type computation struct {
	title      string // description of the numbers in words
	numbers    string // Python expression for the list of numbers
	at         string // Python expression for the positions on the x axis
	statistics []string
	plot       bool
}

// statistics contains the Python expression of each statistic by its name. The names are those in
// aStatistic.
var statistics = map[string]string{
	"sum": "sum(numbers)", "total": "sum(numbers)", "product": "math.prod(numbers)", "count": "len(numbers)",
	"mean": "statistics.mean(numbers)", "average": "statistics.mean(numbers)", "median": "statistics.median(numbers)",
	"minimum": "min(numbers)", "maximum": "max(numbers)",
	"standard deviation": "statistics.stdev(numbers)", "variance": "statistics.variance(numbers)",
}

const aStatistic = `sum|total|product|count|mean|average|median|minimum|maximum|standard deviation|variance`

var (
	asking    = regexp.MustCompile(`(?i)^(?:please )?(?:(?:can|could) you (?:please )?)?(?:compute|calculate|what is|what are|what's|give me|show me) `)
	plotFirst = regexp.MustCompile(`(?i)^(?:please )?(?:plot|draw|chart) `)
	plotLast  = regexp.MustCompile(`(?i),? and (?:then )?(?:plot|draw|chart)(?: (?:it|them|that|the (?:results?|numbers|values)))?(?:,? please)?$`)
	ofNumbers = regexp.MustCompile(`(?i)^((?:` + aStatistic + `)(?:(?:,? and |, )(?:the )?(?:` + aStatistic + `))*) of (?:the )?(.+)$`)
	span      = regexp.MustCompile(`(?i)^(squares|cubes|numbers) (?:of |from )(?:the numbers from )?(-?\d{1,9}) to (-?\d{1,9})$`)
	listing   = regexp.MustCompile(`(?i),? and |, `)
)

// compute parses a message that requests a computation, such as "the mean of 3, 4 and 8" or
// "Compute the squares of 1 to 10 and plot it".
func compute(message string) (c computation, ok bool) {
	if len(message) > maxComputed {
		return c, false
	}

	// Each pattern removes the part of the text that it matches. At the end, only a range or a list
	// of numbers may be left.
	text := strings.TrimRight(strings.Join(strings.Fields(message), " "), " .!?")
	if at := plotLast.FindStringIndex(text); at != nil {
		c.plot, text = true, text[:at[0]]
	}
	if lead := plotFirst.FindString(text); lead != "" {
		c.plot, text = true, text[len(lead):]
	}

	text = strings.TrimPrefix(asking.ReplaceAllString(text, ""), "the ")
	if m := ofNumbers.FindStringSubmatch(text); m != nil {
		for _, name := range listing.Split(strings.ToLower(m[1]), -1) {
			c.statistics = append(c.statistics, strings.TrimPrefix(name, "the "))
		}
		text = m[2]
	}

	// A range of numbers is a complete request. A list of numbers is a complete request only if the
	// message also asks for a statistic or a plot.
	if m := span.FindStringSubmatch(text); m != nil {
		c.readSpan(strings.ToLower(m[1]), normal(m[2]), normal(m[3]))
		return c, true
	}
	return c, c.readList(text) && (c.plot || len(c.statistics) > 0)
}

// readSpan sets the numbers to the integers of a range, or to their squares or cubes.
func (c *computation) readSpan(kind, from, to string) {
	c.at = "range(" + from + ", " + to + " + 1)"
	c.numbers = "[n" + map[string]string{"squares": "**2", "cubes": "**3"}[kind] + " for n in " + c.at + "]"
	if c.title = "the numbers from " + from + " to " + to; kind != "numbers" {
		c.title = "the " + kind + " of " + c.title
	}
}

// readList parses a list of at least two numbers. It rejects a list with a comma that no space
// follows, because that comma may belong to a number.
func (c *computation) readList(text string) bool {
	list := listing.Split(text, -1)
	for i, item := range list {
		if !number.MatchString(item) {
			return false
		}
		list[i] = normal(item)
	}
	c.title = strings.Join(list, ", ")
	c.numbers, c.at = "["+c.title+"]", "range(1, len(numbers) + 1)"
	return len(list) > 1
}

// program returns a Python program that carries out the computation.
func (c *computation) program() string {
	code := "numbers = " + c.numbers + "\n"
	for _, name := range c.statistics {
		code += "print(" + statistics[name] + ")\n"
	}
	if len(c.statistics) == 0 {
		code += `print(", ".join(map(str, numbers)))` + "\n"
	}

	for _, module := range []string{"statistics", "math"} {
		if strings.Contains(code, module+".") {
			code = "import " + module + "\n" + code
		}
	}
	if !c.plot {
		return code
	}
	return code + `
try:
    import matplotlib.pyplot as plt
except ImportError:
    print("There is no plot: matplotlib is not installed.")
else:
    plt.plot(` + c.at + `, numbers, marker="o")
    plt.title("` + truncateWords(c.title, 80) + `")
    plt.savefig("` + plotFile + `")
`
}

// report describes the results that the program has printed. It returns "" if the output has
// another form.
func (c *computation) report(out codeOutput) string {
	lines := strings.Split(strings.TrimRight(out.Stdout, "\n"), "\n")

	// The program prints one line for each statistic, or a single line with all numbers.
	results := max(len(c.statistics), 1)
	if len(lines) < results || lines[0] == "" {
		return ""
	}

	var parts []string
	for n, line := range lines {
		line = rounded(excerpt(line, quotedText))
		switch {
		case n < len(c.statistics):
			name := c.statistics[n]
			if name == "standard deviation" || name == "variance" {
				name = "sample " + name // the values for a whole population would be different
			}
			line = fmt.Sprintf("The %s of %s is %s.", name, c.title, line)
		case n == 0 && strings.HasPrefix(c.title, "the "):
			line = fmt.Sprintf("T%s are %s.", c.title[1:], line)
		}
		parts = append(parts, line)
	}

	return strings.Join(append(parts, out.left()...), "\n\n")
}

// computed describes the results of the computation that a message requests. It returns "" if the
// message requests none, or if the output has another form.
func computed(message string, out codeOutput) string {
	c, ok := compute(message)
	if !ok || codeBlock.MatchString(message) {
		return ""
	}
	return c.report(out)
}
