package offline

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"parley/workers/internal/llm"
)

// Patterns of statements and of questions about the session.
var (
	// Matches statements to which later questions may refer, such as "my name is Ada" and "the code
	// word is heron".
	stated  = regexp.MustCompile(`(?i)\b(my|our|the)\s+([\pL][\pL\pN '-]{0,40}?)\s+(?:is|are|was)\s+([^.!?\n]{1,120})`)
	recalls = regexp.MustCompile(`(?i)\b(?:what|who|where|when|which)(?:'s|\s+is|\s+are|\s+was|\s+were)\s+(?:my|our|the|your)\s+([\pL][\pL\pN '-]{0,40}?)\s*\??\s*$`)
	quotes  = regexp.MustCompile(`(?i)\bwhat\s+(?:did|have|had)\s+i\s+(?:just\s+|first\s+)?(?:say|said|ask|asked|tell|told|write|written)\b`)
	kept    = regexp.MustCompile(`(?i)\b(?:remember|recall)\b(?:\s+that)?\s+(.{2,200})`)
	reminds = regexp.MustCompile(`(?i)\b(?:what\b.*\bremember|do you remember|can you recall)\b`)
)

// remembers reports whether earlier messages of the session contain the answer, so that no tool is
// needed.
func (p prompt) remembers() bool {
	asks := quotes.MatchString(p.message) || recalls.MatchString(p.message) || reminds.MatchString(p.message)
	return asks && p.fromMemory() != ""
}

// fromMemory answers from earlier messages of the session. It also acknowledges a statement such as
// "my name is Ada".
func (p prompt) fromMemory() string {
	// A question about the session is answered from the session, even if the session does not
	// contain the answer.
	switch {
	case quotes.MatchString(p.message):
		return p.quoteEarlier()
	case recalls.MatchString(p.message):
		return p.recallStated(recalls.FindStringSubmatch(p.message)[1])
	case reminds.MatchString(p.message):
		return p.recallKept()
	case isQuestion(p.message):
		return ""
	}

	// The statement is only acknowledged, because later questions find it in the session's
	// messages.
	if m := stated.FindStringSubmatch(p.message); m != nil {
		return fmt.Sprintf("Noted: %s %s is %s.", yours(m[1]), m[2], strings.TrimSpace(m[3]))
	}
	if m := kept.FindStringSubmatch(p.message); m != nil {
		return fmt.Sprintf("Noted: “%s”.", excerpt(m[1], quotedText))
	}
	return ""
}

// quoteEarlier quotes the caller's previous message. It quotes the first message if the caller asks
// for the first one.
func (p prompt) quoteEarlier() string {
	first := mentions(p.message, "first")
	said := ""
	for _, m := range p.earlier {
		// Keep the first message if first is true, and otherwise the last one.
		if m.Role == llm.RoleUser && (said == "" || !first) {
			said = m.Text
		}
	}

	switch {
	case said == "":
		return "This is the first message of yours that I can see in this session."
	case first:
		return fmt.Sprintf("The first message of yours that I can see was: “%s”.", excerpt(said, quotedText))
	default:
		return fmt.Sprintf("Before this you wrote: “%s”.", excerpt(said, quotedText))
	}
}

// recallStated returns the session's last statement about a subject. It returns "" if there is
// none, so that other rules are tried.
func (p prompt) recallStated(subject string) string {
	for _, v := range slices.Backward(p.earlier) {
		if v.Role != llm.RoleUser {
			continue
		}
		// The last statement applies, because it may correct an earlier one.
		statements := stated.FindAllStringSubmatch(v.Text, -1)
		for _, statement := range slices.Backward(statements) {
			if m := statement; strings.EqualFold(m[2], subject) {
				return fmt.Sprintf("You said that %s %s is %s.", yours(m[1]), m[2], strings.TrimSpace(m[3]))
			}
		}
	}
	return ""
}

// recallKept quotes the last text that the caller asked the model to remember.
func (p prompt) recallKept() string {
	for _, v := range slices.Backward(p.earlier) {
		// A question such as "do you remember …?" is not a request to remember.
		if v.Role != llm.RoleUser || reminds.MatchString(v.Text) {
			continue
		}
		if m := kept.FindStringSubmatch(v.Text); m != nil {
			return fmt.Sprintf("You asked me to remember: “%s”.", excerpt(m[1], quotedText))
		}
	}
	return "I see nothing in this session that I was asked to remember."
}

// yours returns "your" for "my" and "our", and "the" for any other word.
func yours(word string) string {
	switch strings.ToLower(word) {
	case "my", "our":
		return "your"
	default:
		return "the"
	}
}
