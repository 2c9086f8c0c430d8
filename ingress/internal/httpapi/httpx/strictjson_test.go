package httpx

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

type strictInner struct {
	Enabled Optional[bool] `json:"enabled"`
	Count   int            `json:"count" required:"true"`
}

type strictBase struct {
	ID string `json:"id"`
}

type strictBody struct {
	strictBase
	Name  string                `json:"name" required:"true"`
	Note  *string               `json:"note"`
	Inner Optional[strictInner] `json:"inner"`
	Tags  []string              `json:"tags"`
	Pairs map[string]string     `json:"pairs"`
	List  []strictInner         `json:"list"`
	Raw   json.RawMessage       `json:"raw"`
	Sizes Optional[[]int64]     `json:"sizes"`
}

// found returns problems as lines of the form "field code".
func found(p *Problems) string {
	var lines []string
	for _, f := range p.List {
		lines = append(lines, f.Field+" "+f.Code)
	}
	return strings.Join(lines, ", ")
}

func TestDecodeStrictFindsProblems(t *testing.T) {
	t.Parallel()
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for name, c := range map[string]struct{ body, want string }{
		"good":                   {`{"name":"x","inner":{"count":1}}`, ""},
		"null pointer":           {`{"name":"x","note":null}`, ""},
		"missing":                {`{}`, "name required"},
		"all at once":            {`{"nam":1,"inner":{"enabled":"yes"},"tags":[1,"a",null]}`, "nam unknown_field, inner.enabled invalid_type, inner.count required, tags[0] invalid_type, tags[2] invalid_type, name required"},
		"unknown nested":         {`{"name":"x","inner":{"count":1,"x":{"y":[1]}}}`, "inner.x unknown_field"},
		"other case":             {`{"Name":"x"}`, "Name unknown_field, name required"},
		"escaped name":           {`{"n\u0061me":"x"}`, ""},
		"doubled":                {`{"name":"x","name":"y"}`, "name duplicate"},
		"doubled by escape":      {`{"name":"x","n\u0061me":"y"}`, "name duplicate"},
		"doubled in raw":         {`{"name":"x","raw":{"a":{"b":1,"b":2}}}`, "raw.a.b duplicate"},
		"doubled in unknown":     {`{"name":"x","q":{"b":1,"b":2}}`, "q unknown_field"},
		"doubled in map":         {`{"name":"x","pairs":{"b":"1","b":"2"}}`, "pairs.b duplicate"},
		"null string":            {`{"name":null}`, "name invalid_type"},
		"null object":            {`{"name":"x","inner":null}`, "inner invalid_type"},
		"null list":              {`{"name":"x","tags":null}`, "tags invalid_type"},
		"number for string":      {`{"name":1}`, "name invalid_type"},
		"string for list":        {`{"name":"x","tags":"a"}`, "tags invalid_type"},
		"list for object":        {`{"name":"x","inner":[]}`, "inner invalid_type"},
		"in a list":              {`{"name":"x","list":[{"count":1},{"count":"1"}]}`, "list[1].count invalid_type"},
		"fraction":               {`{"name":"x","inner":{"count":1.5}}`, "inner.count invalid_type"},
		"whole fraction":         {`{"name":"x","inner":{"count":1.0}}`, ""},
		"whole exponent":         {`{"name":"x","inner":{"count":36e2}}`, ""},
		"huge":                   {`{"name":"x","inner":{"count":1e300}}`, "inner.count invalid_type"},
		"endless":                {`{"name":"x","inner":{"count":1e999}}`, "inner.count invalid_type"},
		"string for number":      {`{"name":"x","inner":{"count":"1"}}`, "inner.count invalid_type"},
		"NUL":                    {`{"name":"a\u0000b"}`, "name invalid_value"},
		"half a pair":            {`{"name":"a\ud83d"}`, "name invalid_value"},
		"the other half":         {`{"name":"\ude00a"}`, "name invalid_value"},
		"half a pair in raw":     {`{"name":"a","raw":{"x":["\ud83d\ud83d"]}}`, "raw.x[0] invalid_value"},
		"NUL in raw":             {`{"name":"a","raw":{"x":["\u0000"]}}`, "raw.x[0] invalid_value"},
		"NUL in a name":          {`{"name":"a","raw":{"\u0000":1}}`, "raw invalid_value"},
		"trailing data":          {`{"name":"x"} {}`, "body invalid_json"},
		"trailing comma":         {`{"name":"x",}`, "body invalid_json"},
		"trailing comma in list": {`{"name":"x","tags":["a",]}`, "body invalid_json"},
		"two commas":             {`{"name":"x",,"id":"x"}`, "body invalid_json"},
		"no comma":               {`{"name":"x" "id":"x"}`, "body invalid_json"},
		"no colon":               {`{"name" "x"}`, "body invalid_json"},
		"single quotes":          {`{'name':'x'}`, "body invalid_json"},
		"comment":                {`{"name":"x"/**/}`, "body invalid_json"},
		"NaN":                    {`{"name":NaN}`, "body invalid_json"},
		"leading zero":           {`{"name":"x","inner":{"count":01}}`, "body invalid_json"},
		"plus":                   {`{"name":"x","inner":{"count":+1}}`, "body invalid_json"},
		"bare fraction":          {`{"name":"x","raw":1.}`, "body invalid_json"},
		"bare exponent":          {`{"name":"x","raw":1e}`, "body invalid_json"},
		"line break in string":   {"{\"name\":\"a\nb\"}", "body invalid_json"},
		"bad escape":             {`{"name":"\x"}`, "body invalid_json"},
		"short escape":           {`{"name":"\u12"}`, "body invalid_json"},
		"not UTF-8":              {"{\"name\":\"\xff\"}", "body invalid_json"},
		"byte order mark":        {"\ufeff{}", "body invalid_json"},
		"empty":                  {``, "body invalid_json"},
		"cut short":              {`{"name":"x`, "body invalid_json"},
		"a list":                 {`[]`, "body invalid_type"},
		"null":                   {`null`, "body invalid_type"},
		"48 levels":              {`{"name":"x","raw":` + deep(47) + `}`, ""},
		"49 levels":              {`{"name":"x","raw":` + deep(48) + `}`, "body too_deep"},
		"very deep":              {strings.Repeat(`{"raw":`, 100_000), "body too_deep"},
	} {
		var body strictBody
		p := &Problems{}
		DecodeStrict([]byte(c.body), &body, p)
		if got := found(p); got != c.want {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
	}
}

func TestDecodeStrictReadsValues(t *testing.T) {
	t.Parallel()
	note := "n"
	want := strictBody{
		strictBase: strictBase{ID: "i"}, Name: "a\"\\/\b\f\n\r\tä😀", Note: &note,
		Inner: Optional[strictInner]{true, strictInner{Optional[bool]{true, false}, -3600}},
		Tags:  []string{"x", ""}, Pairs: map[string]string{"k": "v"}, List: []strictInner{},
		Raw: json.RawMessage(`{"one": "\u0061", "whole":"\ud83d\ude00"}`), Sizes: Optional[[]int64]{true, []int64{1, 1 << 53}},
	}
	var got strictBody
	p := &Problems{}
	ok := DecodeStrict([]byte(` { "id":"i","name" : "a\"\\\/\b\f\n\r\t\u00e4\ud83d\ude00", "note":"n",
		"inner":{"enabled":false,"count":-3.6e3},"tags":["x",""],"pairs":{"k":"v"},"list":[],
		"raw":{"one": "\u0061", "whole":"\ud83d\ude00"},"sizes":[1,9007199254740992]} `), &got, p)
	if !ok || found(p) != "" || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v\nfound %s", got, want, found(p))
	}
	var absent strictBody
	if !DecodeStrict([]byte(`{"name":""}`), &absent, p) || absent.Inner.Set || absent.Sizes.Set || absent.Note != nil {
		t.Errorf("absent fields are set: %+v", absent)
	}
}

func TestProblemsAreBounded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`{"name":"x"`)
	for n := range 5000 {
		b.WriteString(`,"x` + strings.Repeat("y", n%200) + `":1`)
	}
	p := &Problems{}
	DecodeStrict([]byte(b.String()+"}"), &strictBody{}, p)
	if len(p.List) != maxProblems {
		t.Errorf("%d problems", len(p.List))
	}
	for _, f := range p.List {
		if len(f.Field) > 80 {
			t.Errorf("field %s", f.Field)
		}
	}
}

// FuzzDecodeStrict compares the decoder with encoding/json. Both must accept the same JSON, except
// for JSON that is nested too deep for the decoder. If a body has no problems, both must decode it
// to the same value.
func FuzzDecodeStrict(f *testing.F) {
	for _, seed := range []string{
		`{"name":"x"}`, `{"name":"x","inner":{"enabled":true,"count":1e2},"tags":["a"],"pairs":{"a":"b"},"raw":[{}]}`,
		`{"name":"\ud83d\ude00\u0000\ud83d","note":null}`, `[1.5e-7,-0,"\\"]`, `{"a":{"a":1,"a":2}}`, `{"Name":1}`, ` null `, `{"name":"x",}`, `[[[[[[]]]]]]`,
		`{"list":[{"count":1},{}],"sizes":[9223372036854775807]}`, "\"\xff\"", `"\u12`, `{`, `01`, `-`, `tru`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		var raw json.RawMessage
		p := &Problems{}
		ok := DecodeStrict(append([]byte(nil), src...), &raw, p)
		if ok && !json.Valid(src) {
			t.Fatalf("accepted invalid JSON: %q", src)
		}
		if !ok && json.Valid(src) && utf8.Valid(src) && p.List[len(p.List)-1].Code != CodeTooDeep {
			t.Fatalf("refused JSON: %q: %s", src, found(p))
		}
		if ok && !json.Valid(raw) {
			t.Fatalf("made %q of %q", raw, src)
		}
		var mine strictBody
		p = &Problems{}
		if !DecodeStrict(append([]byte(nil), src...), &mine, p) || len(p.List) > 0 {
			return
		}
		var theirs struct {
			ID    string            `json:"id"`
			Name  string            `json:"name"`
			Note  *string           `json:"note"`
			Tags  []string          `json:"tags"`
			Pairs map[string]string `json:"pairs"`
		}
		if err := json.Unmarshal(src, &theirs); err != nil {
			t.Fatalf("encoding/json refuses %q: %v", src, err)
		}
		if theirs.ID != mine.ID || theirs.Name != mine.Name || !reflect.DeepEqual(theirs.Note, mine.Note) ||
			!reflect.DeepEqual(theirs.Tags, mine.Tags) || !reflect.DeepEqual(theirs.Pairs, mine.Pairs) {
			t.Fatalf("%q: encoding/json reads %+v, not %+v", src, theirs, mine)
		}
	})
}

func BenchmarkDecodeStrict(b *testing.B) {
	src := []byte(`{"id":"ag_01h455vb4pex5vsknk084sn02q","name":"nightly-2025-01-01","raw":{"message":"` + strings.Repeat("word ", 100) + `"}}`)
	b.ReportAllocs()
	for b.Loop() {
		var body strictBody
		p := Problems{}
		if !DecodeStrict(src, &body, &p) || len(p.List) > 0 {
			b.Fatal(found(&p))
		}
	}
}
