package dispatch

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"parley/shared/domain"
)

// For any request, the stored input is the JSON encoding of the request's input, without
// insignificant spaces in its data.
func TestInputIsTheRequest(t *testing.T) {
	t.Parallel()
	history := []domain.Exchange{{Message: "a \"b\"", Answer: "<c>\n"}}
	for _, in := range []domain.Input{
		{},
		{Message: "hi"},
		{Message: "a \"quoted\" \\ line\n\t\u2028\x00 <b>&"},
		{Message: "not UTF-8: \xff"},
		{Message: "x", Data: json.RawMessage(" { \"a b\" : [ 1e400 , \"c \\\" d\\\\\" , \"\\\\\\\" {\" ] ,\r\n\t\"e\" : \" < \\ud800 \" } ")},
		{Message: "x", Data: json.RawMessage(`"a text"`)},
		{Message: "x", Data: json.RawMessage(`null`)},
		{Data: json.RawMessage(`[]`), History: history},
		{Message: "x", History: history, Instructions: "be brief"},
		{Message: "x", Data: json.RawMessage(`{}`), Instructions: "be brief"},
	} {
		s := Submission{Message: in.Message, Data: in.Data, History: in.History, Instructions: in.Instructions}
		got, err := s.input()
		if err != nil {
			t.Fatal(err)
		}

		var want, compact bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(in); err != nil {
			t.Fatal(err)
		}
		if err := json.Compact(&compact, got); err != nil || compact.String() != string(got) {
			t.Errorf("%q is not compact JSON: %v", got, err)
		}
		var gotValue, wantValue any
		if json.Unmarshal(got, &gotValue) == nil && json.Unmarshal(want.Bytes(), &wantValue) == nil && !reflect.DeepEqual(gotValue, wantValue) {
			t.Errorf("got %s, want %s", got, want.Bytes())
		}
		if len(got) > want.Len() {
			t.Errorf("%q is longer than %q", got, want.Bytes())
		}
	}
}
