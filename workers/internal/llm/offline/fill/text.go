package fill

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"parley/shared/truncate"
)

const (
	maxText   = 300    // maximum length in characters of a text that becomes a value
	maxRead   = 16_000 // maximum number of characters of a text that are examined
	maxSpans  = 500    // maximum number of values of one form in a text
	nearWords = 24     // maximum number of bytes between a name and its value
)

// text contains a text, and the values that were found in it, by their forms.
type text struct {
	s    string
	item bool   // the text is a part of a list, so its subject may be a noun without a capital
	used []span // parts of the text whose values have been used

	dates, times, emails, links, numbers, codes, names, quotes, units, nouns []span
}

// span is a value in a text, with its position.
type span struct {
	from, to int
	value    string
}

// Patterns of the forms of values.
var (
	email   = regexp.MustCompile(`[\pL\pN._%+-]+@[\pL\pN-]+(?:\.[\pL\pN-]+)+`)
	link    = regexp.MustCompile(`https?://[^\s<>"')\]]+[^\s<>"')\].,;:!?]`)
	isoDate = regexp.MustCompile(`\b(\d{4})-(\d{2})-(\d{2})\b`)
	dotDate = regexp.MustCompile(`\b(\d{1,2})\.(\d{1,2})\.(\d{4})\b`)
	dayDate = regexp.MustCompile(`(?i)\b(\d{1,2})(?:st|nd|rd|th|\.)?\s+(?:of\s+)?(` + months + `)[a-z]*\.?,?\s+(\d{4})\b`)
	mdyDate = regexp.MustCompile(`(?i)\b(` + months + `)[a-z]*\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(\d{4})\b`)
	clock   = regexp.MustCompile(`\b([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?\b`)
	amount  = regexp.MustCompile(`[-−]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+,\d{1,2}\b|\d+(?:\.\d+)?)`)
	code    = regexp.MustCompile(`\b[\pL\pN]+(?:[-_/][\pL\pN]+)*\b`)
	named   = regexp.MustCompile(`\p{Lu}[\pL'’&-]*(?:\s+(?:(?:de|der|van|von|of|the|&)\s+)?\p{Lu}[\pL'’&-]*)*`)
	quote   = regexp.MustCompile(`["“„«]([^"“”„«»\n]{1,300})["”“»]`)
	unit    = regexp.MustCompile(`(?i)\d\s*(%|€|\$|£|°[CF]|[a-z]{1,12})|(€|\$|£)\s*\d|\b(EUR|USD|GBP|CHF|JPY)\b`)
	counted = regexp.MustCompile(`(?:^|\s)\d+\s*(?:x|×)?\s+([\pL][\pL' -]*?)(?:\s+(?:at|for|each|per|of|in|to|from|with|costs?|on|by|priced)\b|\s*[@:=(\d€$£.]|\s*$)`)
	noun    = regexp.MustCompile(`^\s*(?:[-*•]\s*)?(?:(?:and|a|an|the|\d+\s*(?:x|×)?)\s+)*([\pL][\pL' -]*?)(?:\s+(?:at|for|each|per|of|in|to|from|with|costs?|is|are|on|by|priced)\b|\s*[@:=(\d€$£]|\s*$)`)
	pair    = regexp.MustCompile(`(?:^|[\n,;.])\s*([\pL][\pL\pN _-]{0,40}?)\s*[:=]\s*([^\n,;]+)`)
)

const months = `jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec`

// newText returns a text and the values in it.
func newText(s string) *text { return readText(s, false) }

// newItem returns a part of a list and the values in it.
func newItem(s string) *text { return readText(s, true) }

// readText finds the values in the first maxRead characters of a text. item is true if the text is
// a part of a list. A number, code or name must not overlap an e-mail address, a link, a date or a
// time. A name must not overlap a code either.
func readText(s string, item bool) *text {
	t := &text{s: truncate.Runes(s, maxRead), item: item}
	t.emails, t.links, t.dates, t.times = t.matches(email), t.matches(link), t.readDates(), t.readTimes()
	t.units, t.nouns = t.readUnits(), t.readNouns()

	taken := slices.Concat(t.emails, t.links, t.dates, t.times)
	for _, m := range t.matches(amount) {
		if v, ok := t.readNumber(&m); ok && !overlaps(taken, m) {
			m.value = v
			t.numbers = append(t.numbers, m)
		}
	}
	for _, m := range t.matches(code) {
		if strings.ContainsFunc(m.value, unicode.IsDigit) && !overlaps(taken, m) {
			t.codes = append(t.codes, m)
		}
	}
	for _, m := range t.matches(named) {
		if !overlaps(taken, m) && !overlaps(t.codes, m) && t.isName(&m) {
			t.names = append(t.names, m)
		}
	}
	for _, at := range quote.FindAllStringSubmatchIndex(t.s, maxSpans) {
		t.quotes = append(t.quotes, span{at[2], at[3], t.s[at[2]:at[3]]})
	}
	return t
}

// part returns the text that the n-th group of a match matched, or "".
func part(s string, at []int, n int) string {
	if at[2*n] < 0 {
		return ""
	}
	return s[at[2*n]:at[2*n+1]]
}

// matches returns the matches of a regular expression in the text, at most maxSpans.
func (t *text) matches(re *regexp.Regexp) []span {
	var all []span
	for _, at := range re.FindAllStringIndex(t.s, maxSpans) {
		all = append(all, span{at[0], at[1], t.s[at[0]:at[1]]})
	}
	return all
}

// readDates returns the dates in the text in the form year-month-day, in their order.
func (t *text) readDates() (all []span) {
	add := func(re *regexp.Regexp, year, month, day int) {
		for _, at := range re.FindAllStringSubmatchIndex(t.s, maxSpans) {
			m := part(t.s, at, month)
			if !unicode.IsDigit(rune(m[0])) {
				m = strconv.Itoa(strings.Index(months, strings.ToLower(m[:3]))/4 + 1)
			}
			v := part(t.s, at, year) + "-" + twoDigits(m) + "-" + twoDigits(part(t.s, at, day))
			if _, err := time.Parse(time.DateOnly, v); err == nil {
				all = append(all, span{at[0], at[1], v})
			}
		}
	}
	add(isoDate, 1, 2, 3)
	add(dotDate, 3, 2, 1)
	add(dayDate, 3, 2, 1)
	add(mdyDate, 3, 1, 2)
	slices.SortFunc(all, func(a, b span) int { return a.from - b.from })
	return all
}

// readTimes returns the times of day in the text in the form hours:minutes:seconds.
func (t *text) readTimes() (all []span) {
	for _, at := range clock.FindAllStringSubmatchIndex(t.s, maxSpans) {
		h, m, sec := part(t.s, at, 1), part(t.s, at, 2), part(t.s, at, 3)
		if sec == "" {
			sec = "00"
		}
		all = append(all, span{at[0], at[1], twoDigits(h) + ":" + m + ":" + sec})
	}
	return all
}

// readUnits returns the units of amounts and the codes of currencies in the text.
func (t *text) readUnits() (all []span) {
	for _, at := range unit.FindAllStringSubmatchIndex(t.s, maxSpans) {
		for n := 1; n <= 3; n++ {
			if v := part(t.s, at, n); v != "" {
				all = append(all, span{at[2*n], at[2*n+1], v})
			}
		}
	}
	return all
}

// readNouns returns the subject if the text is a part of a list. Otherwise it returns nothing.
func (t *text) readNouns() (all []span) {
	if !t.item {
		return nil
	}
	for _, re := range []*regexp.Regexp{counted, noun} {
		if at := re.FindStringSubmatchIndex(t.s); at != nil {
			all = append(all, span{at[2], at[3], strings.TrimSpace(t.s[at[2]:at[3]])})
		}
	}
	return all
}

// twoDigits adds a leading zero to a single digit.
func twoDigits(s string) string {
	if len(s) == 1 {
		return "0" + s
	}
	return s
}

// readNumber returns a numeral as a JSON number. It returns false if the numeral is part of a word.
func (t *text) readNumber(m *span) (string, bool) {
	before, _ := utf8.DecodeLastRuneInString(t.s[:m.from])
	digits := strings.TrimLeft(m.value, "-−")
	if digits != m.value && (unicode.IsLetter(before) || unicode.IsDigit(before)) { // the sign is a dash, not a minus sign
		m.from += len(m.value) - len(digits)
		m.value = digits
		before = '-'
	}
	if unicode.IsLetter(before) || before == '_' || before == '.' || before == '/' {
		return "", false
	}
	v := digits
	// A comma before one or two digits at the end is a decimal comma. Other commas separate
	// thousands.
	switch comma := strings.LastIndexByte(v, ','); {
	case comma >= 0 && !strings.Contains(v, ".") && len(v)-comma <= 3:
		v = strings.Replace(v, ",", ".", 1)
	default:
		v = strings.ReplaceAll(v, ",", "")
	}
	whole, fraction, has := strings.Cut(v, ".")
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	if has {
		whole += "." + fraction
	}
	if digits != m.value {
		whole = "-" + whole
	}
	return whole, true
}

// Words that are not names even if they begin with a capital.
var noNames = setFor(`i the a an and or but if this that these those it we you he she they my our your is are was were do does did can could
	will would should please what when where which who why how extract find list give tell show return fill create make write read get
	january february march april may june july august september october november december
	monday tuesday wednesday thursday friday saturday sunday yes no ok hello hi dear thanks json eur usd gbp chf jpy`)

// isName reports whether words with capitals are a name. A single word at the beginning of a
// sentence is a name only if the words after it show this, or if the text is a part of a list.
// isName first removes leading words that cannot be part of a name.
func (t *text) isName(m *span) bool {
	m.value = strings.TrimRight(m.value, ".-'’&")
	m.to = m.from + len(m.value)
	for {
		first, rest, more := strings.Cut(m.value, " ")
		if !noNames[strings.ToLower(strings.TrimRight(first, "'’.,"))] {
			break
		}
		if !more {
			return false
		}
		m.from, m.value = m.to-len(strings.TrimSpace(rest)), strings.TrimSpace(rest)
	}
	if m.value == "" || !unicode.IsUpper(firstRune(m.value)) {
		return false
	}
	before := strings.TrimRight(t.s[:m.from], " \t\"“'(")
	begins := before == "" || strings.ContainsAny(before[len(before)-1:], ".!?\n:")
	return !begins || t.item || strings.ContainsAny(m.value, " &-") || t.follows(m.to)
}

// verbs matches words that follow a name at the beginning of a sentence.
var verbs = regexp.MustCompile(`(?i)^(?:'s|’s|,|\s+(?:is|was|has|had|bought|ordered|paid|owes|lives|works|wants|wrote|sent|costs|weighs|and|from|of|in|at)\b|\s*$)`)

// follows reports whether the words after an offset show that a name precedes them.
func (t *text) follows(to int) bool { return verbs.MatchString(t.s[to:]) }

func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

// overlaps reports whether a value shares a character with one of the given values.
func overlaps(taken []span, m span) bool {
	return slices.ContainsFunc(taken, func(one span) bool { return one.from < m.to && m.from < one.to })
}

// isUsed reports whether the value at an offset was already used.
func (t *text) isUsed(at int) bool { return overlaps(t.used, span{from: at, to: at + 1}) }

// use marks a part of the text as used.
func (t *text) use(from, to int) { t.used = append(t.used, span{from: from, to: to}) }

// take returns the first unused value that the function accept accepts, and marks the value as
// used. If near is true, the words of the field's name must be next to the value.
func (t *text) take(all []span, words []string, near bool, accept func(string) (string, bool)) (raw string, found bool) {
	if near && len(words) == 0 {
		return "", false
	}
	for _, after := range []bool{false, true} { // first try values that follow their name, because they match better
		for _, m := range all {
			if overlaps(t.used, m) || near && !t.near(&m, words, after) {
				continue
			}
			if raw, ok := accept(m.value); ok {
				t.use(m.from, m.to)
				return raw, true
			}
		}
		if !near {
			break
		}
	}
	return "", false
}

// near reports whether the words of a name are directly before a value or, if after is true,
// directly after it. Between them there may be a few characters that do not end a sentence.
func (t *text) near(m *span, words []string, after bool) bool {
	var between string
	if after {
		between = truncate.Runes(t.s[m.to:], nearWords)
	} else {
		from := max(m.from-nearWords-len(strings.Join(words, " ")), 0)
		for from < m.from && !utf8.RuneStart(t.s[from]) {
			from++
		}
		between = t.s[from:m.from]
	}
	at := namePattern(words).FindAllStringIndex(between, -1)
	if at == nil {
		return false
	}
	gap := between[at[len(at)-1][1]:]
	if after {
		gap = between[:at[0][0]]
	}
	return !strings.ContainsAny(gap, ".!?;\n,") && !strings.ContainsFunc(gap, unicode.IsDigit)
}

// namePattern returns a pattern that matches the words of a name, in the singular and the plural.
func namePattern(words []string) *regexp.Regexp {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = regexp.QuoteMeta(w)
	}
	if n := len(quoted); n > 0 {
		quoted[n-1] = strings.TrimSuffix(quoted[n-1], "s") + "s?"
	}
	return regexp.MustCompile(`(?i)\b` + strings.Join(quoted, `[\s_-]*`) + `\b`)
}

// valueEnd matches the end of a labelled value.
var valueEnd = regexp.MustCompile(`[;\n]|,\s|[.!?](?:\s|$)|\s+and\s`)

// labelled returns the text that follows a name and a colon, an equals sign, or "is".
func (t *text) labelled(words []string, accept func(string) (string, bool)) (raw string, found bool) {
	if len(words) == 0 {
		return "", false
	}
	for _, at := range namePattern(words).FindAllStringIndex(t.s, maxSpans) {
		sign := labelSign.FindString(t.s[at[1]:])
		if sign == "" {
			continue
		}
		from := at[1] + len(sign)
		value := t.s[from:]
		if end := valueEnd.FindStringIndex(value); end != nil {
			value = value[:end[0]]
		}
		value = strings.Trim(value, " \t\"“”'.!?")
		if value == "" || unicode.IsDigit(firstRune(value)) && !strings.ContainsAny(sign, ":=") { // "the tower is 330 m high" is no label
			continue
		}
		if raw, ok := accept(truncate.Runes(value, maxText)); ok {
			t.use(from, from+len(value))
			return raw, true
		}
	}
	return "", false
}

// labelSign matches the characters between a label and its value.
var labelSign = regexp.MustCompile(`^["'”]?(?:\s*[:=]|\s+(?:is|are|was)\b)\s*`)

// listed returns the entries of a list that follows a name and a colon, such as "tags: red, green
// and blue".
func (t *text) listed(name string) (entries []string) {
	words := nameWords(name)
	if len(words) == 0 {
		return nil
	}
	for _, at := range namePattern(words).FindAllStringIndex(t.s, maxSpans) {
		sign := labelSign.FindString(t.s[at[1]:])
		if sign == "" {
			continue
		}
		list, _, _ := strings.Cut(t.s[at[1]+len(sign):], "\n")
		if end := listEnd.FindStringIndex(list); end != nil {
			list = list[:end[0]]
		}
		for _, one := range listSeparator.Split(list, maxItems) {
			if one = strings.Trim(one, " \t\"“”'."); one != "" {
				entries = append(entries, one)
			}
		}
		return entries
	}
	return nil
}

// Patterns of the boundaries in a list.
var (
	listEnd       = regexp.MustCompile(`[;!?]|\.(?:\s|$)`)
	listSeparator = regexp.MustCompile(`\s*,\s*(?:and\s+)?|\s+and\s+`)
	partSeparator = regexp.MustCompile(`\n+|;\s*|,\s+(?:and\s+)?|\s+and\s+|[.!?](?:\s+|$)`)
	introduction  = regexp.MustCompile(`^[^\n:]{0,80}:\s+`)
)

// parts returns the parts of a text, each of which may describe one item of a list.
func (t *text) parts() (parts []string) {
	s := introduction.ReplaceAllString(t.s, "")
	isDigitOrUpper := func(r rune) bool { return unicode.IsDigit(r) || unicode.IsUpper(r) }
	for _, one := range partSeparator.Split(s, maxItems) {
		if one = strings.TrimSpace(one); one != "" && strings.ContainsFunc(one, isDigitOrUpper) {
			parts = append(parts, one)
		}
	}
	return parts
}

// denial matches a word that negates the words after it.
var denial = regexp.MustCompile(`(?i)(?:\b(?:no|not|never|without|isn't|aren't|wasn't|doesn't|don't|un)\b[^.!?\n]{0,16}|\b(?:un|non-?))$`)

// truth returns whether the text affirms or denies a name, as in "urgent", "not urgent" and
// "urgent: no".
func (t *text) truth(words []string, named bool) (raw string, found bool) {
	words = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return fillers[w] })
	if len(words) == 0 || !named {
		return "", false
	}
	at := namePattern(words).FindStringIndex(t.s)
	if at == nil {
		return "", false
	}
	after := strings.ToLower(strings.TrimLeft(t.s[at[1]:], " :=\"'”"))
	says := labelSign.MatchString(t.s[at[1]:])
	if after = strings.TrimPrefix(after, "is "); says && (strings.HasPrefix(after, "no") || strings.HasPrefix(after, "false")) {
		return "false", true
	}
	return write(!denial.MatchString(t.s[:at[0]])), true
}

// fillers are words that the name of a boolean field may contain and that texts omit. For example,
// the word "urgent" in a text stands for the field isUrgent.
var fillers = setFor(`is has can should was are does be`)

// find returns the offset at which the text contains a value of an enumeration as whole words, or
// -1.
func (t *text) find(v any) int {
	word, isText := v.(string)
	if n, ok := v.(json.Number); ok {
		for _, m := range t.numbers {
			if m.value == n.String() && !overlaps(t.used, m) {
				return m.from
			}
		}
		return -1
	}
	if !isText || word == "" {
		return -1
	}
	re, err := regexp.Compile(`(?i)(?:^|[^\pL\pN])(` + strings.NewReplacer("_", `[\s_-]+`, `-`, `[\s_-]+`, " ", `[\s_-]+`).Replace(regexp.QuoteMeta(word)) + `)(?:$|[^\pL\pN])`)
	if err != nil {
		return -1
	}
	for _, at := range re.FindAllStringSubmatchIndex(t.s, maxSpans) {
		if !t.isUsed(at[2]) && !denial.MatchString(t.s[:at[2]]) {
			return at[2]
		}
	}
	return -1
}

// contains reports whether the text contains a value of an answer.
func (t *text) contains(v any) bool {
	word, isText := v.(string)
	if !isText {
		return t.find(v) >= 0
	}
	if utf8.RuneCountInString(word) < 2 {
		return false
	}
	for at := 0; ; {
		i := strings.Index(t.s[at:], word)
		if i < 0 {
			return false
		}
		from, to := at+i, at+i+len(word)
		before, _ := utf8.DecodeLastRuneInString(t.s[:from])
		after, _ := utf8.DecodeRuneInString(t.s[to:])
		if !isWord(before) && !isWord(after) {
			return true
		}
		at = from + 1
		for at < len(t.s) && !utf8.RuneStart(t.s[at]) {
			at++
		}
	}
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
