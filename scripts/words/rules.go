package main

import (
	"fmt"
	"regexp"
	"strings"
)

// rule bans the texts that its pattern matches, and suggests a replacement.
type rule struct {
	pattern *regexp.Regexp
	instead string
}

// rules lists the banned words of the section "Glossary" in CONTRIBUTING.md.
var rules = []rule{
	{word(`tells?|told|telling`), `"reports", "notifies", "publishes" or "says"`},
	{word(`anew`), `"again"`},
	{word(`but for`), `"except"`},
	{word(`so long`), `"meanwhile" or "until then"`},
	{word(`mend(s|ed|ing)?`), `"fix" or "repair"`},
	{word(`who(m|so)?ever`), `the noun: "the caller", "the worker"`},
	{regexp.MustCompile(`\b[Nn]obody\b`), `"no client", "no worker" or "no user"`},
	{word(`to be had`), `"available"`},
	{word(`for want of`), `"without"`},
	{word(`vouch(es|ed)?`), `"guarantees" or "proves"`},
	{word(`be that as it may|such as it is`), `nothing`},
	{word(`a doorbell message|rung for|rings for`), `"job message" or "notifies"`},
	{word(`hands? (it )?over its place|gives its place`), `"dispatches the next run"`},
	{
		regexp.MustCompile(`(?:^|[.:;!?] )(?:What|Whatever|Of what|Where) (?:\w+ ){1,4}(?:is|are|was|were|has|have) (?:\w+ed|told|read|kept|given|made|said|had)\b`),
		`a sentence whose subject is a thing`,
	},
	{regexp.MustCompile(`description: (?:\||["'])?\s*(?:What|Where|Of)\b`), `a description that begins with a noun`},
}

// word returns a pattern that matches the alternatives as whole words, regardless of case.
func word(alternatives string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(?:` + alternatives + `)\b`)
}

// check returns a line for each banned word in a text, with the word's position and a replacement.
func check(t text) []string {
	var lines []string
	for _, r := range rules {
		for _, at := range r.pattern.FindAllStringIndex(t.content, -1) {
			found := strings.Join(strings.Fields(t.content[at[0]:at[1]]), " ")
			line := t.line + strings.Count(t.content[:at[0]], "\n")
			lines = append(lines, fmt.Sprintf("%s:%d: %q: write %s", t.file, line, found, r.instead))
		}
	}
	return lines
}
