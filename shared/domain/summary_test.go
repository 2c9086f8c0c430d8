package domain

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestSummariesHaveTheFieldsOfRuns checks that each field of a run is in summaries, or in the list
// of fields that summaries do not have.
func TestSummariesHaveTheFieldsOfRuns(t *testing.T) {
	t.Parallel()
	names := func(of reflect.Type) (out []string) {
		for field := range of.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			out = append(out, name)
		}
		return out
	}
	left := []string{"output", "warnings", "appendSources", "settings"} // of a whole run only
	summary := names(reflect.TypeFor[RunSummary]())
	for _, name := range names(reflect.TypeFor[Run]()) {
		if slices.Contains(summary, name) == slices.Contains(left, name) {
			t.Errorf("add the field %s either to RunSummary or to the list of this test", name)
		}
	}
}

func TestReadQuestion(t *testing.T) {
	t.Parallel()
	long := strings.Repeat(`a"\é☾😀<`+"\n", 200)
	encoded, err := json.Marshal(Input{Message: long, Data: []byte(`{"message":"no"}`)})
	if err != nil {
		t.Fatal(err)
	}
	whole := string(encoded)
	for n := range len(whole) {
		got, _ := ReadQuestion(string([]rune(whole)[:min(n, len([]rune(whole)))]))
		if n < len(`{"message":"`) {
			if got != nil {
				t.Errorf("the first %d characters have the message %q", n, got.Message)
			}
			continue
		}
		read := strings.TrimSuffix(strings.TrimSuffix(got.Message, "\uFFFD"), "\n")
		if !strings.HasPrefix(long, read) || got.Message != long && !got.MessageCut {
			t.Fatalf("the first %d characters have the message %q, truncated %v", n, got.Message, got.MessageCut)
		}
	}
	prefix, _ := QuestionPrefix(50)
	if got, _ := ReadQuestion(string([]rune(whole)[:prefix])); len([]rune(got.Message)) <= 50 {
		t.Errorf("the prefix for 50 characters has %d", len([]rune(got.Message)))
	}
	for input, want := range map[string]string{
		UnstoredInput + `"message":"hello"}`: "hello", `{"message":""}`: "", `{"message":"\u003c"}`: "<", `{"message":"é`: "é",
	} {
		if got, _ := ReadQuestion(input); got == nil || got.Message != want {
			t.Errorf("%s: %+v, want %q", input, got, want)
		}
	}
	for _, input := range []string{"", "{}", `{"data":"message"}`, `{"message":"\x"}`} {
		if got, _ := ReadQuestion(input); got != nil {
			t.Errorf("%s: %+v", input, got)
		}
	}
}

// The attachments precede the message in the JSON. They can be read from the beginning of any
// input.
func TestReadQuestionWithAttachments(t *testing.T) {
	t.Parallel()
	files := make([]Attachment, MaxAttachments)
	for i := range files {
		files[i] = Attachment{
			FileID: "file_" + strings.Repeat("a", 26), Name: strings.Repeat("<", 255), MediaType: strings.Repeat("m", 100), Bytes: MaxAttachmentBytes,
		}
	}
	list, err := json.Marshal(files)
	if err != nil {
		t.Fatal(err)
	}
	rest := AttachmentsKey + string(list) + `,"message":"` + strings.Repeat(`\u0001`, 2000) + `","data":{}}`
	_, prefix := QuestionPrefix(500)
	for _, whole := range []string{"{" + rest, UnstoredInput + rest} {
		question, got := ReadQuestion(whole[:prefix])
		if !slices.Equal(got, files) || question == nil || len(question.Message) <= 500 || !question.MessageCut {
			t.Fatalf("%d attachments, %+v", len(got), question)
		}
		for n := range len(whole[:len(whole)-len(rest)]) + len(AttachmentsKey) + len(list) {
			if question, got = ReadQuestion(whole[:n]); question != nil || got != nil {
				t.Fatalf("the first %d characters have %v, %v", n, question, got)
			}
		}
	}
	if question, got := ReadQuestion(`{"attachments":[{"fileId":"f","name":"n","mediaType":"m","bytes":1}],"message":""}`); len(got) != 1 || got[0].Name != "n" || *question != (InputSummary{}) {
		t.Errorf("%+v, %+v", question, got)
	}
}
