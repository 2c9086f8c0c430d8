package analysis

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/arabic"
	"github.com/blevesearch/snowballstem/danish"
	"github.com/blevesearch/snowballstem/dutch"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/finnish"
	"github.com/blevesearch/snowballstem/french"
	"github.com/blevesearch/snowballstem/german"
	"github.com/blevesearch/snowballstem/hungarian"
	"github.com/blevesearch/snowballstem/irish"
	"github.com/blevesearch/snowballstem/italian"
	"github.com/blevesearch/snowballstem/norwegian"
	"github.com/blevesearch/snowballstem/portuguese"
	"github.com/blevesearch/snowballstem/romanian"
	"github.com/blevesearch/snowballstem/russian"
	"github.com/blevesearch/snowballstem/spanish"
	"github.com/blevesearch/snowballstem/swedish"
	"github.com/blevesearch/snowballstem/tamil"
	"github.com/blevesearch/snowballstem/turkish"
)

// stemmer removes the inflection from words of one language. stem receives a word in lower case and
// must be safe for concurrent use.
type stemmer struct {
	language string
	script   *unicode.RangeTable
	stem     func(word string) string
}

// writes reports whether a word begins with a letter in the script of the stemmer's language.
func (s stemmer) writes(plain string) bool {
	first, _ := utf8.DecodeRuneInString(plain)
	return unicode.Is(s.script, first)
}

// form returns the form in which a word is indexed: its stem without marks. In Latin script, a word
// with a stem of up to three letters keeps its plain form, except in English. A query uses the
// stems of all languages, so such a short stem would match many unrelated words.
func (s stemmer) form(word, plain string) string {
	stem := fold(s.stem(word))
	left := utf8.RuneCountInString(stem)
	switch {
	case left == 0:
		return plain
	case s.script != unicode.Latin || s.language == "en" || left >= 4:
		return stem
	case left == 3 && utf8.RuneCountInString(plain) == 4:
		return stem
	}
	return plain
}

// stemmers lists the stemmers of each script, beginning with the most used language. The number of
// stems of a query's word is limited. Stems beyond the limit are dropped, in queries and in the
// index (see searchableForms), which affects the last languages.
var stemmers = []stemmer{
	{"en", unicode.Latin, snowball(english.Stem)},
	{"de", unicode.Latin, snowball(german.Stem)},
	{"fr", unicode.Latin, snowball(french.Stem)},
	{"es", unicode.Latin, snowball(spanish.Stem)},
	{"it", unicode.Latin, snowball(italian.Stem)},
	{"pt", unicode.Latin, snowball(portuguese.Stem)},
	{"nl", unicode.Latin, snowball(dutch.Stem)},
	{"sv", unicode.Latin, snowball(swedish.Stem)},
	{"pl", unicode.Latin, endings("pl")},
	{"cs", unicode.Latin, endings("cs")},
	{"tr", unicode.Latin, snowball(turkish.Stem)},
	{"da", unicode.Latin, snowball(danish.Stem)},
	{"no", unicode.Latin, snowball(norwegian.Stem)},
	{"fi", unicode.Latin, snowball(finnish.Stem)},
	{"ro", unicode.Latin, snowball(romanian.Stem)},
	{"hu", unicode.Latin, snowball(hungarian.Stem)},
	{"hr", unicode.Latin, endings("hr")},
	{"ca", unicode.Latin, endings("ca")},
	{"ga", unicode.Latin, snowball(irish.Stem)},
	{"ru", unicode.Cyrillic, snowball(russian.Stem)},
	{"uk", unicode.Cyrillic, endings("uk")},
	{"bg", unicode.Cyrillic, endings("bg")},
	{"ar", unicode.Arabic, snowball(arabic.Stem)},
	{"fa", unicode.Arabic, endings("fa")},
	{"el", unicode.Greek, endings("el")},
	{"hi", unicode.Devanagari, endings("hi")},
	{"ta", unicode.Tamil, snowball(tamil.Stem)},
}

// kin maps a language to a similar language whose stemmer is used instead.
var kin = map[string]string{"nb": "no", "nn": "no", "sk": "cs", "bs": "hr", "sh": "hr", "gl": "pt", "mk": "bg", "be": "uk"}

// base returns the language of a BCP 47 tag in lower case, or the similar language whose stemmer is
// used. For example, it returns "no" for "nb-NO".
func base(tag string) string {
	language, _, _ := strings.Cut(strings.ToLower(strings.ReplaceAll(tag, "_", "-")), "-")
	if other, has := kin[language]; has {
		return other
	}
	return language
}

// snowball returns a stemmer that uses a Snowball algorithm.
func snowball(stem func(*snowballstem.Env) bool) func(string) string {
	return func(word string) string {
		env := snowballstem.NewEnv(word)
		stem(env)
		return env.Current()
	}
}

// endings returns a stemmer for a language that has no Snowball algorithm. The stemmer removes the
// longest ending after which at least three letters remain.
func endings(language string) func(string) string {
	table := strings.Fields(inflections[language])
	slices.SortStableFunc(table, func(a, b string) int { return len(b) - len(a) })
	return func(word string) string {
		for _, ending := range table {
			if strings.HasSuffix(word, ending) && utf8.RuneCountInString(word)-utf8.RuneCountInString(ending) >= 3 {
				return word[:len(word)-len(ending)]
			}
		}
		return word
	}
}

// entry is a word in the cache, with its forms. stop is true if the word is a stop word of the
// language. An entry never changes.
type entry struct {
	tongue, word string
	forms        []string
	stop         bool
}

// cache contains forms of words, because stemming takes most of the time and texts repeat words.
// Each word has one slot, where it replaces the previous word. The cache is safe for concurrent
// use.
var (
	cache [1 << 14]atomic.Pointer[entry]
	seed  = maphash.MakeSeed()
)

// anyTongue stands for all languages and is used for queries. It differs from all languages that
// base returns, which contain no dash.
const anyTongue = "-"

// lookUp returns the forms of a word in a language, from the cache if possible. For anyTongue, it
// returns the forms in all languages. The caller must not change the result. An unknown language
// has no stemmer and no stop words.
func lookUp(tongue, word string) *entry {
	sum := maphash.String(seed, word) + uint64(len(tongue))
	for i := range len(tongue) {
		sum = sum*31 + uint64(tongue[i])
	}

	// If two words have the same slot, they replace each other, which costs time but is otherwise
	// harmless.
	slot := &cache[sum%uint64(len(cache))]
	if found := slot.Load(); found != nil && found.word == word && found.tongue == tongue {
		return found
	}

	word = strings.Clone(word) // a substring would keep the whole text in memory
	made := &entry{tongue: tongue, word: word}
	if tongue == anyTongue {
		made.forms = allForms(word)
	} else {
		made.forms, made.stop = searchableForms(tongue, word), stops()[tongue][folded(word)]
	}
	slot.Store(made)
	return made
}

// searchableForms returns the forms of a word in a language, without those that a query for the
// same word omits. A query omits only forms of the last languages of a script. For most languages,
// no comparison with the query's forms is needed.
func searchableForms(tongue, word string) []string {
	own := forms(tongue, word)
	if len(own) == 0 || alwaysFits(tongue, len(own)) {
		return own
	}

	// A form that queries omit must not be in the index, because it could never be found.
	asked := allForms(word)
	kept := slices.DeleteFunc(own, func(form string) bool { return !slices.Contains(asked, form) })
	if len(kept) == 0 {
		return asked[:1]
	}
	return kept
}

// alwaysFits reports whether a query always includes the forms of a word in the given language,
// even if all earlier languages of the script have as many forms. each is the number of forms per
// language.
func alwaysFits(tongue string, each int) bool {
	// A language without a stemmer has only the plain form.
	at := slices.IndexFunc(stemmers, func(s stemmer) bool { return s.language == tongue })
	if at < 0 {
		return true
	}
	before := 0
	for _, s := range stemmers[:at] {
		if s.script == stemmers[at].script {
			before++
		}
	}
	return 1+(before+1)*each <= maxLexemes
}

// forms returns the stem of a word. If the stem of the word without marks is different, forms
// returns that stem, too. People omit marks, but stemmers need marks to recognize endings. forms
// returns nil for a word that consists only of marks.
func forms(tongue, word string) []string {
	small := bare(word)
	plain := fold(small)

	if plain == "" {
		return nil
	}
	at := slices.IndexFunc(stemmers, func(s stemmer) bool { return s.language == tongue })
	if at < 0 || !stemmable(plain) || !stemmers[at].writes(plain) {
		return []string{plain}
	}

	marked := stemmers[at].form(small, plain)
	unmarked := marked
	if plain != small {
		unmarked = stemmers[at].form(plain, plain)
	}
	if marked == unmarked {
		return []string{marked}
	}
	return []string{marked, unmarked}
}

// allForms returns the forms of a word in all languages of its script, at most maxLexemes. The
// plain form comes first.
func allForms(word string) []string {
	small := bare(word)
	plain := fold(small)
	all := []string{plain}

	if !stemmable(plain) {
		return all
	}
	add := func(form string) {
		// Several stemmers often return the same form.
		if len(all) < maxLexemes && !slices.Contains(all, form) {
			all = append(all, form)
		}
	}

	for _, s := range stemmers {
		if !s.writes(plain) {
			continue
		}
		add(s.form(small, plain))
		if plain != small {
			add(s.form(plain, plain))
		}
	}
	return all
}

// stemmable reports whether a word may have an inflection. Such a word consists of letters and has
// at least three bytes.
func stemmable(plain string) bool {
	if len(plain) < 3 {
		return false
	}
	for _, r := range plain {
		if !unicode.IsLetter(r) && !unicode.IsMark(r) {
			return false
		}
	}
	return true
}

// stops returns the stop words of each language in lower case and without marks. They are computed
// once.
var stops = sync.OnceValue(func() map[string]map[string]bool {
	all := make(map[string]map[string]bool, len(stopWords))
	for language, words := range stopWords {
		set := map[string]bool{}
		for word := range strings.FieldsSeq(words) {
			set[folded(word)] = true
		}
		all[language] = set
	}
	return all
})

// stopsFor returns a function that reports whether a word is a stop word. It uses only the
// languages that have the most stop words among words, because a stop word of one language may be a
// name in another.
func stopsFor(words []string) func(string) bool {
	limit, best := 0, []map[string]bool(nil)
	for _, set := range stops() {
		n := 0
		for _, word := range words {
			if set[word] {
				n++
			}
		}
		// This language has more stop words in the query than all previous ones.
		if n > limit {
			limit, best = n, nil
		}
		if n > 0 && n == limit {
			best = append(best, set)
		}
	}
	return func(word string) bool {
		return slices.ContainsFunc(best, func(set map[string]bool) bool { return set[word] })
	}
}
