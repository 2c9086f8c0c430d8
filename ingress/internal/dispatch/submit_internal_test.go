package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"parley/shared/domain"
)

// The input that is stored for a request equals the output of encoding/json for it. Only
// insignificant spaces in the request's data are removed.
func TestInputIsTheRequest(t *testing.T) {
	t.Parallel()
	history := []domain.Exchange{{Message: "a \"b\"", Answer: "<c>\n"}}
	files := []domain.Attachment{{FileID: "file_1", Name: `a "<b>".png`, MediaType: "image/png", Bytes: 3}}
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
		{RunOptions: domain.RunOptions{Attachments: files}},
		{Message: "x", Data: json.RawMessage(`{}`), RunOptions: domain.RunOptions{Attachments: files, Output: &domain.OutputContract{}}},
	} {
		s := Submission{Message: in.Message, Data: in.Data, History: in.History, Instructions: in.Instructions, Options: in.RunOptions}
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
		question, listed := domain.ReadQuestion(string(got))
		if question == nil || question.Message != strings.ToValidUTF8(in.Message, "\uFFFD") || !reflect.DeepEqual(listed, in.Attachments) {
			t.Errorf("a list shows %+v and %v of %s", question, listed, got)
		}
		if len(got) > want.Len()+len(`"\u003c\u003e"`)*len(in.Attachments) {
			t.Errorf("%q is longer than %q", got, want.Bytes())
		}
	}
}

// The fingerprint of a request depends on the request as it was sent. It does not depend on the
// values that the function Before looks up.
func TestAFingerprintIsThatOfTheRequest(t *testing.T) {
	t.Parallel()
	s := &Submission{Message: "m", Sent: []string{"previous", "run_1"}}
	asked := s.fingerprint()
	if same := (&Submission{Message: "m", Previous: new("run_1")}).fingerprint(); !bytes.Equal(asked, same) {
		t.Error("stored fingerprints no longer match")
	}
	if bytes.Equal(asked, (&Submission{Message: "m"}).fingerprint()) {
		t.Error("what the request refers to does not count")
	}
	s.Before = func(context.Context) error {
		s.Message, s.Previous, s.History = "found", new("run_2"), []domain.Exchange{{Message: "a", Answer: "b"}}
		return nil
	}
	if err := s.Prepare(t.Context()); err != nil || !bytes.Equal(asked, s.fingerprint()) {
		t.Errorf("prepared: %v, another fingerprint", err)
	}
}
