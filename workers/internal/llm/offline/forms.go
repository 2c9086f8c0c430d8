package offline

import "regexp"

// Patterns of questions, and patterns that the answers to these questions probably match.
var (
	asksWhen = regexp.MustCompile(`(?i)\b(?:when|(?:what|which)\s+(?:year|date|day|century|month|time)|(?:at|on)\s+(?:what|which)\s+(?:time|date|day))\b`)
	asksSize = regexp.MustCompile(`(?i)\bhow\s+(?:many|much|tall|high|long|old|far|big|large|deep|wide|heavy|fast)\b`)
	asksWho  = regexp.MustCompile(`(?i)\b(?:who|whom|whose)\b`)

	aDate = regexp.MustCompile(`(?i)\b(?:1\d{3}|20\d{2}|\d+(?:st|nd|rd|th)\s+century|\d+\s+(?:BCE?|AD|CE)|\d{1,2}[./]\d{1,2}[./]\d{2,4}|` +
		months + `|` + clock + `|` + relative + `|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|Q[1-4])\b`)
	aNumber = regexp.MustCompile(`(?i)\d|\b(?:` + numerals + `|dozens?|hundreds?|thousands?|millions?|billions?|once|twice)\b`)
	aYear   = regexp.MustCompile(`(?i)\b(?:in|since|by|until|from|of)\s+(?:1\d{3}|20\d{2})\b`)
	// Matches a title, or capitalized words in the middle of a sentence.
	aPerson = regexp.MustCompile(`\b(?:Mr|Mrs|Ms|Dr|Prof)\b|[\pL\pN,;] \p{Lu}\p{Ll}+|^\p{Lu}\p{Ll}+ \p{Lu}\p{Ll}+`)
)

// Parts of the patterns above.
const (
	numerals = `one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|` +
		`(?:twen|thir|for|fif|six|seven|eigh|nine)ty`
	// May and March are also ordinary words, so only their capitalized forms match.
	months = `(?-i:January|February|March|April|June|July|August|September|October|November|December)|` +
		`(?:in|on|by|since|until|till|from|of|before|after|during|early|late|mid|\d{1,2}(?:st|nd|rd|th|\.)?)[\s-]+(?-i:May)|(?-i:May)\s+\d+|` +
		`(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\.?\s+\d+|\d{1,2}\.?\s+(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)`
	clock    = `\d{1,2}:\d{2}|\d{1,2}\s*[ap]\.?m|\d{1,2}\s*o['’]clock|noon|midnight`
	units    = `(?:seconds?|minutes?|hours?|days?|weeks?|fortnights?|months?|quarters?|years?)`
	relative = `today|tonight|tomorrow|yesterday|spring|summer|autumn|winter|christmas|easter|daily|weekly|monthly|quarterly|yearly|annually|` +
		`(?:next|last|this|coming|every|each|previous|following)\s+(?:` + units + `|morning|afternoon|evening|night|weekend|fall)|` +
		`(?:a|an|\d+|` + numerals + `)\s+` + units + `\s+(?:ago|later|after|before|from)|` +
		`(?:in|within|after)\s+(?:a|an|the|\d+|` + numerals + `)\s+` + units + `|(?:beginning|start|middle|end)\s+of\s+(?:the\s+)?` + units
)
