package agentloop

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/shared/domain"
	"parley/shared/schema"
	"parley/shared/testkit/cputime"
)

// answerBytes is the size of each answer that is validated in these tests.
const answerBytes = 10 << 10

// answerShape contains a schema, and a function that writes the nth part of a matching answer. A
// part is an item of a list or, if the root of the schema is an object, a member of that object.
type answerShape struct {
	name, schema string
	part         func(n int) string
}

var answerShapes = []answerShape{
	{"flat", `{"type":"array","items":{"type":"object","additionalProperties":false,"required":["name","price","paid"],"properties":{
		"name":{"type":"string","minLength":1},"price":{"type":"number","minimum":0},"paid":{"type":"boolean"}}}}`, func(n int) string {
		return fmt.Sprintf(`{"name":"lamp no. %d","price":%d.5,"paid":true}`, n, n)
	}},
	{"nested", `{"type":"array","items":{"$ref":"#/$defs/part"},"$defs":{"part":{"type":"object","required":["name"],"unevaluatedProperties":false,"properties":{
		"name":{"type":"string"},"weight":{"type":"number"},"parts":{"type":"array","items":{"$ref":"#/$defs/part"}}}}}}`, func(n int) string {
		return strings.Repeat(`{"name":"frame","parts":[`, 8) + fmt.Sprintf(`{"name":"bolt %d","weight":%d}`, n, n) + strings.Repeat(`]}`, 8)
	}},
	{"numbers", `{"type":"array","items":{"type":"array","minItems":3,"maxItems":3,"items":{"type":"number"}}}`, func(n int) string {
		return fmt.Sprintf(`[%d,%d.25,-%d]`, n, n, n)
	}},
	{"texts", `{"type":"array","items":{"type":"string","minLength":10,"maxLength":2000,"pattern":"[a-z]+\\.$"}}`, func(n int) string {
		return fmt.Sprintf(`"Paragraph %d. %s It ends here."`, n, strings.Repeat(`The lamp \"Luna\" stands on the table. `, 20))
	}},
	{"alternatives", `{"type":"array","items":{"oneOf":[
		{"type":"object","required":["kind","radius"],"properties":{"kind":{"const":"circle"},"radius":{"type":"number"}}},
		{"type":"object","required":["kind","side"],"properties":{"kind":{"const":"square"},"side":{"type":"number"}}},
		{"type":"object","required":["kind","label"],"properties":{"kind":{"enum":["text","note"]},"label":{"type":"string"}}}]}}`, func(n int) string {
		return []string{fmt.Sprintf(`{"kind":"circle","radius":%d}`, n), fmt.Sprintf(`{"kind":"square","side":%d}`, n), fmt.Sprintf(`{"kind":"note","label":"no. %d"}`, n)}[n%3]
	}},
	{"keys", `{"type":"object","patternProperties":{"^lamp-":{"type":"object","properties":{"watts":{"type":"integer"},"date":{"type":"string","pattern":"^\\d{4}-\\d\\d-\\d\\d$"}}}},
		"additionalProperties":false}`, func(n int) string {
		return fmt.Sprintf(`"lamp-%d":{"watts":%d,"date":"2026-03-04"}`, n, n)
	}},
}

// write returns an answer that matches the schema and has about answerBytes bytes.
func (s answerShape) write() string {
	var b strings.Builder
	for n := 0; b.Len() < answerBytes; n++ {
		_, _ = b.WriteString("," + s.part(n)) // never fails
	}
	if strings.HasPrefix(s.schema, `{"type":"object"`) {
		return "{" + b.String()[1:] + "}"
	}
	return "[" + b.String()[1:] + "]"
}

// citedAnswer returns an answer in its envelope with citations of 100 values, and its sources. The
// sources have the same size as the passages that a document search returns.
func citedAnswer(data string) (answer string, sources []domain.Citation) {
	const passageCount, each, citations = 6, 4 << 10, 100
	cited := []valueCitation{}
	all := scalars(data)
	for n := range min(len(all), citations) {
		v := all[n*len(all)/min(len(all), citations)]
		cited = append(cited, valueCitation{v.path, 1 + n%passageCount})
	}
	for n := range passageCount {
		text := fmt.Sprintf("Page %d: the lamp “Luna” costs %d.5 euros, and the frame’s bolt %d weighs %d g; 1,200.50 in all.\n", n, n, n, n*7)
		sources = append(sources, domain.Citation{ID: n + 1, CitedText: strings.Repeat(text, each/len(text))})
	}
	raw, err := json.Marshal(envelope{json.RawMessage(data), cited})
	if err != nil {
		panic(err) // cannot happen
	}
	return string(raw), sources
}

// validation is the validation of one answer.
type validation struct {
	contract *Contract
	answer   string
	sources  []domain.Citation // nil if the run has no tools
}

func newValidation(tb testing.TB, s answerShape, cites bool) validation {
	tb.Helper()
	c, err := NewContract(json.RawMessage(s.schema))
	if err != nil {
		tb.Fatal(err)
	}
	v := validation{contract: c, answer: s.write()}
	switch {
	case cites:
		v.answer, v.sources = citedAnswer(v.answer)
	case c.enveloped(false):
		v.answer = `{"data":` + v.answer + `}`
	}
	return v
}

// run does the work that is done at the end of an agent's run. It parses the answer, validates it
// with the schema, and looks up the cited values in sources that were not read before.
func (v validation) run(tb testing.TB) (took time.Duration) {
	tb.Helper()
	k := known{passages: passages{}}
	k.add(v.sources)
	var cited []valueCitation
	var wrong []schema.Mismatch
	var valid []domain.Citation
	var removed int
	took = cputime.Of(func() {
		var data json.RawMessage
		data, cited, wrong = v.contract.read(v.answer, v.contract.enveloped(v.sources != nil))
		valid, removed = k.passages.valueCitations(string(data), cited)
	})
	if len(wrong) > 0 || len(valid)+removed != len(cited) {
		tb.Fatalf("mismatches %v, %d citations and %d removed of %d", wrong, len(valid), removed, len(cited))
	}
	return took
}

// These values are the maximum durations of a validation, as multiples of the time that
// encoding/json takes to parse the answer. They are about three times the measured values.
const (
	maxValidation      = 20
	maxCitedValidation = 45
)

// TestValidationIsQuick compares the processor time for the validation of answers with the time
// that encoding/json takes to parse them. Both times depend on the machine in the same way.
func TestValidationIsQuick(t *testing.T) { //nolint:paralleltest // it measures
	for _, s := range answerShapes {
		for _, cites := range []bool{false, true} {
			v := newValidation(t, s, cites)
			checked, read := time.Hour, time.Hour
			for range 20 {
				checked = min(checked, v.run(t))
				var value any
				var err error
				read = min(read, cputime.Of(func() { err = json.Unmarshal([]byte(v.answer), &value) }))
				if err != nil {
					t.Fatal(err)
				}
			}
			limit := maxValidation
			if cites {
				limit = maxCitedValidation
			}
			if checked.Nanoseconds() > int64(limit)*read.Nanoseconds() {
				t.Errorf("%s, cited %t: %v, more than %d times the %v of reading it", s.name, cites, checked, limit, read)
			}
			t.Logf("%s, cited %t: %v, which is %.1f times the %v of reading it", s.name, cites, checked, float64(checked)/float64(read), read)
		}
	}
}
