package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// quickSchemas have only keywords that quick checks support.
var quickSchemas = []string{
	`{}`, `{"type":"integer"}`, `{"type":["string","null"]}`, `{"type":"number","minimum":2,"exclusiveMaximum":7.5}`,
	`{"exclusiveMinimum":0,"maximum":1000000000000000000}`, `{"enum":["a",null,true]}`, `{"const":"a"}`, `{"const":false}`,
	`{"type":"string","minLength":2,"maxLength":3,"pattern":"^[a-zä]+$"}`, `{"pattern":"(?=a)b"}`,
	`{"type":"array","minItems":1,"maxItems":2,"items":{"type":"integer"}}`, `{"prefixItems":[{"type":"string"},{"type":"null"}],"items":false}`,
	`{"prefixItems":[{"type":"string"}]}`,
	`{"type":"object","required":["a"],"properties":{"a":{"type":"integer"},"b":true},"additionalProperties":false}`,
	`{"properties":{"a":{"type":"string"}},"patternProperties":{"^b":{"type":"integer"}},"additionalProperties":{"type":"null"}}`,
	`{"properties":{"a":{"type":"integer"}},"unevaluatedProperties":false,"minProperties":1,"maxProperties":2}`,
	`{"properties":{"a":true},"additionalProperties":true,"unevaluatedProperties":false}`,
	`{"allOf":[{"type":"object"},{"required":["a"]}]}`, `{"anyOf":[{"type":"integer"},{"type":"string","minLength":2}]}`,
	`{"oneOf":[{"type":"integer"},{"type":"number","minimum":3},{"type":"string"}]}`, `{"not":{"type":"object","required":["b"]}}`,
	`{"if":{"type":"string"},"then":{"minLength":2},"else":{"type":"array"}}`, `{"if":{"type":"string"},"then":false}`, `{"if":{"type":"object"},"else":false}`,
	`{"$ref":"#/$defs/n","maximum":4,"$defs":{"n":{"type":"integer"}}}`,
	`{"type":["object","integer"],"properties":{"a":{"$ref":"#"},"b":{"$ref":"#"}},"additionalProperties":false}`,
	`{"anyOf":[{"$ref":"#"},{"type":"string"}]}`,
}

var quickValues = []string{
	`null`, `true`, `false`, `0`, `-1`, `3`, `3.0`, `7.5`, `7.49999999999`, `7.4999999999999999999`, `2`, `1e2`, `123456789012345678901`, `4`, `5`,
	`""`, `"a"`, `"ab"`, `"ää"`, `"abcd"`, `"B"`, `[]`, `[1]`, `[1,2]`, `[1,2,3]`, `["a"]`, `["a",null]`, `["a",null,1]`, `[1.5]`, `{}`,
	`{"a":1}`, `{"a":"x"}`, `{"a":1,"b":2}`, `{"a":1,"b":2,"c":3}`, `{"b":1}`, `{"b":"x"}`, `{"c":null}`, `{"c":1}`, `{"a":{"b":{"a":1}}}`, `{"a":{"b":{"c":1}}}`,
}

// TestQuickChecksAgreeWithTheLibrary compares quick checks with checks of the library.
func TestQuickChecksAgreeWithTheLibrary(t *testing.T) {
	t.Parallel()
	decided := 0
	for _, raw := range quickSchemas {
		s, err := Compile(json.RawMessage(raw))
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if s.quick == nil {
			t.Errorf("%s is not supported", raw)
			continue
		}
		for _, text := range quickValues {
			value, err := decode([]byte(text), maxOutput)
			if err != nil {
				t.Fatal(err)
			}
			c := quickCheck{effort: outputEffort}
			got := c.matches(s.quick, value)
			if c.unknown {
				continue
			}
			decided++
			s.effort = outputEffort
			if want := s.compiled.Validate(value); got != (want == nil) {
				t.Errorf("%s, %s: %t, want %v", raw, text, got, want)
			}
		}
	}
	if all := len(quickSchemas) * len(quickValues); decided < all*4/5 {
		t.Errorf("%d of %d checks have a result", decided, all)
	}
}

// TestQuickChecksEnd checks that quick checks end for schemas whose parts refer to each other.
func TestQuickChecksEnd(t *testing.T) {
	t.Parallel()
	value, err := decode([]byte(strings.Repeat("[", 60)+strings.Repeat("]", 60)), maxOutput)
	if err != nil {
		t.Fatal(err)
	}
	nested := `{"type":"array","minItems":1,"items":{"$ref":"#"}}`
	for raw, want := range map[string]bool{
		`{"allOf":[{"$ref":"#"}]}`:                                 false,
		`{"anyOf":[` + nested + `,` + nested + `,` + nested + `]}`: false,
		`{"type":"array","items":{"pattern":"(a|b|ab)*c{1,40}$"}}`: true,
	} {
		s, err := Compile(json.RawMessage(raw))
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if s.quick == nil || quickMatch(s.quick, value, 10_000) != want {
			t.Errorf("%s: supported %t, matches %t", raw, s.quick != nil, !want)
		}
	}
}

// TestQuickChecksKnowTheKeywords fails if the library has a keyword that isQuick does not consider.
func TestQuickChecksKnowTheKeywords(t *testing.T) {
	t.Parallel()
	var names []string
	for field := range reflect.TypeFor[jsonschema.Schema]().Fields() {
		if field.IsExported() {
			names = append(names, field.Name)
		}
	}
	slices.Sort(names)
	want := strings.Fields(`AdditionalItems AdditionalProperties AllOf Anchor AnyOf Bool Comment Const Contains ContentEncoding ContentMediaType
		ContentSchema Default Dependencies DependentRequired DependentSchemas Deprecated Description DraftVersion DynamicAnchor DynamicRef Else Enum
		Examples ExclusiveMaximum ExclusiveMinimum Extensions Format ID If Items Items2020 Location MaxContains MaxItems MaxLength MaxProperties Maximum
		MinContains MinItems MinLength MinProperties Minimum MultipleOf Not OneOf Pattern PatternProperties PrefixItems Properties PropertyNames ReadOnly
		RecursiveAnchor RecursiveRef Ref Required Then Title Types UnevaluatedItems UnevaluatedProperties UniqueItems WriteOnly`)
	if !slices.Equal(names, want) {
		t.Errorf("keywords = %s", fmt.Sprint(names))
	}

	for _, raw := range []string{
		`{"uniqueItems":true}`, `{"contains":{}}`, `{"unevaluatedItems":false}`, `{"multipleOf":2}`, `{"propertyNames":{}}`, `{"dependentRequired":{"a":["b"]}}`,
		`{"dependentSchemas":{"a":{}}}`, `{"enum":[1]}`, `{"const":{}}`, `{"enum":["a"],"const":"a"}`, `{"minimum":0.1}`,
		`{"allOf":[{}],"unevaluatedProperties":false}`, `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`,
	} {
		s, err := Compile(json.RawMessage(raw))
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if s.quick != nil {
			t.Errorf("%s is supported", raw)
		}
	}
}
