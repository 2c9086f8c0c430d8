package agentloop

import (
	"testing"

	"parley/shared/domain"
)

// TestValuesInSources checks, for values of answers, which words of a source state the value.
func TestValuesInSources(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		source, value string
		number        bool
		want          string
	}{
		{"The tower is 330 m high.", "330", true, "330"},
		{"The tower is 330 m high.", "330.0", true, "330"},
		{"The tower is 1330 m high.", "330", true, ""},
		{"It costs 1,200.50 euros.", "1200.5", true, "1,200.50"},
		{"Es kostet 1.200,50 Euro.", "1200.5", true, "1.200,50"},
		{"It costs 1,200 euros.", "1200", true, "1,200"},
		{"It costs 1,200 euros.", "1.2", true, "1,200"},
		{"It costs 1,200 euros.", "200", true, ""},
		{"12 330 people live there.", "12330", true, "12 330"},
		{"In 2024 330 people came.", "330", true, "330"},
		{"In 2024 330 people came.", "2024", true, "2024"},
		{"The version is 1.2.3.", "1.2", true, ""},
		{"The version is 1.2.3.", "3", true, ""},
		{"Room B12 is free.", "12", true, ""},
		{"It was −5 degrees.", "-5", true, "−5"},
		{"It was 5 degrees.", "-5", true, ""},
		{"It was −5 degrees.", "5", true, ""},
		{"It was (-5.50) degrees.", "-5.5", true, "-5.50"},
		{"Open Monday –5 only", "5", true, "5"},
		{"From 1990 -1995 it was open.", "1995", true, "1995"},
		{"Pages 3-5 are missing.", "-5", true, ""},
		{"Pages 3–5 are missing.", "-5", true, ""},
		{"On 2024-11-05 it rained.", "-11", true, ""},
		{"On 2024-11-05 it rained.", "11", true, "11"},
		{"Order A-17 was sent.", "-17", true, ""},
		{"It is .5 inch.", "0.5", true, ".5"},
		{"It is .5 inch.", "5", true, ""},
		{"It is -.5 inch.", "-0.5", true, "-.5"},
		{"The end.5 people", "5", true, "5"},
		{"Pi is 3.1415 or so.", "3.141", true, ""},
		{"Pi is 3.1415 or so.", "3.1415", true, "3.1415"},
		{"It costs 1,2345 euros.", "1234", true, ""},
		{"Model B12 330 W", "330", true, "330"},
		{"Model B12 330 W", "12330", true, ""},
		{"It has 1’200 parts.", "1200", true, "1’200"},
		{"It costs 1,234,567.5 dollars.", "1.2345675e6", true, "1,234,567.5"},
		{"It costs 0,007 euros.", "7E-3", true, "0,007"},
		{"It costs 1 euro.", "1e41", true, ""},
		{"It costs 0.00 euros.", "-0", true, "0.00"},
		{"Pages 3-5 are missing.", "5", true, "5"},
		{"The share is 3.4 %.", "3.4", true, "3.4"},
		{"The share is 3.45 %.", "3.4", true, ""},
		{"1e3 is a thousand", "1e3", true, ""},
		{"A thousand is 1000.", "1e3", true, "1000"},
		{"The account is inactive.", "active", false, ""},
		{"The account is active.", "active", false, "active"},
		{"The account is Active.", "active", false, ""},
		{"It is “the  big\nhouse”.", `"the big house"`, false, "“the  big\nhouse”"},
		{"It is the big house.", "big houses", false, ""},
		{"東京は日本の首都です。", "日本", false, "日本"},
		{"Größe: 3", "Größe", false, "Größe"},
		{"Order A-17 was sent.", "A-17", false, "A-17"},
		{"Order A-178 was sent.", "A-17", false, ""},
		{"anything", "", false, ""},
		{"any. thing", ".", false, ""},
	} {
		p := &passage{source: domain.Citation{CitedText: c.source}}
		if got := p.value(scalar{text: c.value, number: c.number}); got != c.want {
			t.Errorf("%q in %q: %q, want %q", c.value, c.source, got, c.want)
		}
	}
}
