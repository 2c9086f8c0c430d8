package offline

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// plotFile is where a plot goes.
const plotFile = "plot.png"

// program writes a computation as Python.
func (c computation) program() string {
	if e, ok := strings.CutPrefix(c.setup[0], "result = "); ok && !c.plot {
		return "print(" + e + ")\n"
	}
	lines := slices.Clone(c.setup)
	for _, value := range c.values {
		lines = append(lines, "print("+value+")")
	}
	var b strings.Builder
	for _, line := range imported(lines) {
		b.WriteString(line + "\n")
	}
	if c.plot {
		b.WriteString(c.plotting())
	}
	return b.String()
}

// imported leaves out what a program imports and does not use.
func imported(lines []string) []string {
	rest := strings.Join(lines, "\n")
	var kept []string
	for _, line := range lines {
		module, isImport := strings.CutPrefix(line, "import ")
		if isImport && !strings.Contains(rest, module+".") {
			continue
		}
		if line == "" && len(kept) == 0 {
			continue
		}
		kept = append(kept, line)
	}
	return kept
}

// plotting is the part of a program that plots; where matplotlib is not there, it says so.
func (c computation) plotting() string {
	at := c.at
	if at == "" {
		at = "range(1, len(series) + 1)"
	}
	draw := `plt.plot(` + at + `, series, marker="o")`
	switch {
	case c.bars:
		draw = `plt.bar(` + at + `, series)`
	case c.line:
		draw = `plt.plot(` + at + `, series)`
	}
	return "\nseries = " + c.series + `
try:
    import matplotlib.pyplot as plt
except ImportError:
    print("There is no plot: matplotlib is not installed.")
else:
    ` + draw + `
    plt.title(` + pythonText(clip(c.title, 80)) + `)
    plt.savefig("` + plotFile + `")
`
}

// pythonText writes a text that was read by this package's rules: it has nothing that Python reads otherwise than Go.
func pythonText(text string) string { return strconv.QuoteToASCII(text) }

// told says what a program's results are, from what it printed; "" when that is something else.
func (c computation) told(out codeOutput) string {
	lines := strings.Split(strings.TrimRight(out.Stdout, "\n"), "\n")
	if len(lines) < len(c.values) || lines[0] == "" {
		return ""
	}
	var parts []string
	for n, value := range lines[:len(c.values)] {
		value = excerpt(value, quotedText)
		switch {
		case n < len(c.names) && c.line:
			parts = append(parts, fmt.Sprintf("The %s of %s that was computed is %s.", c.names[n], c.title, value))
		case n < len(c.names):
			parts = append(parts, fmt.Sprintf("The %s of %s is %s.", c.names[n], c.title, value))
		case strings.HasPrefix(c.title, "the "):
			verb := "is"
			if strings.Contains(c.values[n], "join") {
				verb = "are"
			}
			parts = append(parts, fmt.Sprintf("T%s %s %s.", c.title[1:], verb, value))
		case c.title != value:
			parts = append(parts, fmt.Sprintf("%s = %s", c.title, value))
		}
	}
	for _, line := range lines[len(c.values):] {
		parts = append(parts, excerpt(line, quotedText))
	}
	if c.plot && out.has(plotFile) {
		parts = append(parts, "The plot is in the file "+plotFile+".")
		return strings.Join(append(parts, out.left(plotFile)...), "\n\n")
	}
	return strings.Join(append(parts, out.left("")...), "\n\n")
}

// toldOf says what came of the computation that a message asks for, "" if it asks for none or the program came to something else.
func toldOf(message string, out codeOutput) string {
	if codeBlock.MatchString(message) {
		return ""
	}
	c, _, ok := compute(message)
	if !ok {
		return ""
	}
	return c.told(out)
}
