package offline

import (
	"regexp"
	"strings"
)

// numbers are what a message names or lists, as Python that makes a list of them.
type numbers struct {
	title string
	setup []string
	at    string // where they are, "" is 1, 2, 3 and so on
}

const aKind = `(?:whole |natural |positive )?(?:numbers|integers)|squares|square numbers|cubes|cube numbers|even numbers|odd numbers|primes|prime numbers|` +
	`fibonacci(?: numbers)?|factorials|powers of (?:two|2)`

// inWords are the numbers that are written out.
var inWords = map[string]string{
	"two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9", "ten": "10", "twelve": "12",
	"twenty": "20", "fifty": "50", "hundred": "100", "a hundred": "100", "one hundred": "100", "thousand": "1000", "a thousand": "1000",
}

var (
	theFirst  = regexp.MustCompile(`(?i)^(?:all )?(?:the )?first (\d{1,6}|\d{1,3},\d{3}|[a-z]+(?: (?:hundred|thousand))?) (` + aKind + `)$`)
	fromTo    = regexp.MustCompile(`(?i)^(?:all )?(?:of )?(?:the )?(?:(` + aKind + `) )?(?:of (?:(?:all )?(?:the )?(?:numbers|integers) )?)?(?:(from|between) )?(-?\d{1,9}) ?(to|and|through|up to|\.\.\.?|…) ?(-?\d{1,9})$`)
	upTo      = regexp.MustCompile(`(?i)^(?:all )?(?:of )?(?:the )?(` + aKind + `) (below|under|less than|smaller than|up to) (\d{1,9})$`)
	powersOf  = regexp.MustCompile(`(?i)^(?:the )?(squares|cubes) of (.+)$`)
	separator = regexp.MustCompile(`(?i)\s*(?:;|,\s|\sand\s|\s)\s*(?:and\s+)?`)
)

// readNumbers reads numbers that a message names or lists.
func readNumbers(text string) (numbers, bool) {
	if s, ok := readNamed(text); ok {
		return s, true
	}
	if m := powersOf.FindStringSubmatch(text); m != nil {
		if s, ok := readList(m[2]); ok {
			s.title = "the " + strings.ToLower(m[1]) + " of " + s.title
			s.setup = append(s.setup, "numbers = [n**"+power(m[1])+" for n in numbers]")
			return s, true
		}
	}
	return readList(text)
}

// readNamed reads numbers that have a name.
func readNamed(text string) (numbers, bool) {
	if m := theFirst.FindStringSubmatch(text); m != nil {
		n := strings.ReplaceAll(strings.ToLower(m[1]), ",", "")
		if written, ok := inWords[n]; ok {
			n = written
		}
		return firstOf(strings.ToLower(m[2]), n)
	}
	if m := fromTo.FindStringSubmatch(text); m != nil {
		if m[1] == "" && strings.EqualFold(m[4], "and") && m[2] == "" { // "3 and 4" are two numbers
			return numbers{}, false
		}
		if strings.EqualFold(m[2], "between") != strings.EqualFold(m[4], "and") {
			return numbers{}, false
		}
		return between(strings.ToLower(m[1]), normal(m[3]), normal(m[5]))
	}
	if m := upTo.FindStringSubmatch(text); m != nil {
		return below(strings.ToLower(m[1]), normal(m[3]), strings.EqualFold(m[2], "up to"))
	}
	return numbers{}, false
}

// plainKind gives one name for those that mean the same.
func plainKind(kind string) string {
	switch {
	case strings.HasPrefix(kind, "square"):
		return "squares"
	case strings.HasPrefix(kind, "cube"):
		return "cubes"
	case strings.HasPrefix(kind, "prime"):
		return "primes"
	case strings.HasPrefix(kind, "fibonacci"):
		return "Fibonacci numbers"
	case strings.HasPrefix(kind, "powers"):
		return "powers of two"
	case strings.HasPrefix(kind, "even"), strings.HasPrefix(kind, "odd"), kind == "factorials":
		return kind
	default:
		return "whole numbers"
	}
}

func power(kind string) string {
	if strings.HasPrefix(strings.ToLower(kind), "square") {
		return "2"
	}
	return "3"
}

// isPrime is a condition on n.
const isPrime = "n > 1 and all(n % d for d in range(2, math.isqrt(n) + 1))"

// firstOf gives the first n numbers of a kind.
func firstOf(kind, n string) (numbers, bool) {
	if !number.MatchString(n) || strings.HasPrefix(n, "-") || strings.Trim(n, "0") == "" {
		return numbers{}, false
	}
	n, kind = normal(n), plainKind(kind)
	s := numbers{title: "the first " + n + " " + kind}
	each := func(expression string) {
		s.setup = []string{"numbers = [" + expression + " for n in range(1, " + n + " + 1)]"}
	}
	switch kind {
	case "squares", "cubes":
		each("n**" + power(kind))
	case "even numbers":
		each("2 * n")
	case "odd numbers":
		each("2 * n - 1")
	case "powers of two":
		each("2**(n - 1)")
		s.title += " (from 1 on)"
	case "factorials":
		each("math.factorial(n)")
		s.title += " (from 1! on)"
	case "primes":
		s.setup = []string{
			"numbers = []", "n = 2", "while len(numbers) < " + n + ":",
			"    if all(n % p for p in numbers if p * p <= n):", "        numbers.append(n)", "    n += 1",
		}
	case "Fibonacci numbers":
		s.setup = []string{
			"numbers = [0, 1]", "while len(numbers) < " + n + ":", "    numbers.append(numbers[-1] + numbers[-2])", "numbers = numbers[:" + n + "]",
		}
		s.title += " (from 0 on)"
	default:
		each("n")
	}
	return s, true
}

// between gives the numbers of a kind from one to another; of squares and the like, those of these numbers.
func between(kind, from, to string) (numbers, bool) {
	kind = plainKind(kind)
	span := "range(" + from + ", " + to + " + 1)"
	s := numbers{title: "the " + kind + " from " + from + " to " + to, at: span}
	each := func(expression string) {
		s.setup, s.title = []string{"numbers = [" + expression + " for n in " + span + "]"}, "the "+kind+" of the numbers from "+from+" to "+to
	}
	only := func(condition string) {
		s.setup, s.at = []string{"numbers = [n for n in " + span + " if " + condition + "]"}, ""
	}
	switch kind {
	case "squares", "cubes":
		each("n**" + power(kind))
	case "factorials":
		each("math.factorial(n)")
	case "even numbers":
		only("n % 2 == 0")
	case "odd numbers":
		only("n % 2 == 1")
	case "primes":
		only(isPrime)
	case "whole numbers":
		s.setup = []string{"numbers = list(" + span + ")"}
	default:
		return numbers{}, false
	}
	return s, true
}

// below gives the numbers of a kind that are less than another, or as large.
func below(kind, to string, including bool) (numbers, bool) {
	kind = plainKind(kind)
	end, word := to, "below"
	if including {
		end, word = to+" + 1", "up to"
	}
	s := numbers{title: "the " + kind + " " + word + " " + to}
	span := "range(1, " + end + ")"
	switch kind {
	case "primes":
		s.setup = []string{"numbers = [n for n in " + span + " if " + isPrime + "]"}
	case "even numbers":
		s.setup = []string{"numbers = [n for n in " + span + " if n % 2 == 0]"}
	case "odd numbers":
		s.setup = []string{"numbers = [n for n in " + span + " if n % 2 == 1]"}
	case "Fibonacci numbers":
		s.setup = []string{
			"numbers, a, b = [], 0, 1", "while a < " + end + ":", "    numbers.append(a)", "    a, b = b, a + b",
		}
	case "whole numbers":
		s.setup, s.title = []string{"numbers = list(" + span + ")"}, s.title+" (from 1 on)"
	default: // "squares below 10" may be either
		return numbers{}, false
	}
	return s, true
}

// readList reads two numbers or more that stand in a text, and nothing else.
func readList(text string) (numbers, bool) {
	for _, lead := range []string{"the ", "these ", "numbers ", "values ", ": "} {
		text = strings.TrimPrefix(text, lead)
	}
	text = strings.TrimPrefix(text, ":")
	text = strings.TrimSpace(strings.Trim(strings.TrimSpace(text), "[]()"))
	items := separator.Split(text, -1)
	var list []string
	for _, item := range items {
		parts := []string{item}
		switch {
		case len(items) > 1 && grouped.MatchString(item): // 1,000
			parts[0] = strings.ReplaceAll(item, ",", "")
		case strings.Contains(item, ","):
			parts = strings.Split(strings.Trim(item, ","), ",")
		}
		for _, part := range parts {
			part = strings.TrimPrefix(strings.ReplaceAll(part, "−", "-"), "+")
			if !number.MatchString(part) {
				return numbers{}, false
			}
			list = append(list, normal(part))
		}
	}
	if len(list) < 2 {
		return numbers{}, false
	}
	all := strings.Join(list, ", ")
	return numbers{title: all, setup: []string{"numbers = [" + all + "]"}}, true
}
