package fill

import (
	"encoding/json"
	"strings"
	"unicode"
)

// object returns the first JSON object that the text contains, or "". It looks only at the first
// braces of the text, because each attempt parses the rest of the text.
func (t *text) object() string {
	for at, tries := 0, 0; tries < 32; tries++ {
		i := strings.IndexByte(t.s[at:], '{')
		if i < 0 {
			return ""
		}
		at += i
		var raw json.RawMessage
		if json.NewDecoder(strings.NewReader(t.s[at:])).Decode(&raw) == nil {
			return write(parse(raw))
		}
		at++
	}
	return ""
}

// pairs returns the names and values in the text that have the form "watts: 7".
func (t *text) pairs() (pairs [][2]string) {
	for _, m := range pair.FindAllStringSubmatch(t.s, maxItems) {
		pairs = append(pairs, [2]string{strings.TrimSpace(m[1]), strings.TrimSpace(strings.Trim(m[2], " .\"'"))})
	}
	return pairs
}

// nameWords splits the name of a field into words in lower case: unitPrice becomes unit, price.
func nameWords(name string) (words []string) {
	var word []rune
	end := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
		}
		word = word[:0]
	}
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
			continue
		// A capital after another capital begins no word, so an abbreviation such as URL stays one
		// word.
		case unicode.IsUpper(r) && len(word) > 0 && !unicode.IsUpper(word[len(word)-1]):
			end()
		}
		word = append(word, r)
	}
	end()
	return words
}

// setFor returns the set of the words in a list, which white space separates.
func setFor(list string) map[string]bool {
	set := map[string]bool{}
	for f := range strings.FieldsSeq(list) {
		set[f] = true
	}
	return set
}
