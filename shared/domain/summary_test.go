package domain

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestReadQuestion(t *testing.T) {
	t.Parallel()
	long := strings.Repeat(`a"\é☾😀<`+"\n", 200)
	encoded, err := json.Marshal(Input{Message: long, Data: []byte(`{"message":"no"}`)})
	if err != nil {
		t.Fatal(err)
	}
	whole := string(encoded)
	for n := range len(whole) {
		got := ReadQuestion(string([]rune(whole)[:min(n, len([]rune(whole)))]))
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
	if got := ReadQuestion(string([]rune(whole)[:QuestionPrefix(50)])); len([]rune(got.Message)) <= 50 {
		t.Errorf("the prefix for 50 characters has %d", len([]rune(got.Message)))
	}
	for input, want := range map[string]string{
		UnstoredInput + `"message":"hello"}`: "hello", `{"message":""}`: "", `{"message":"\u003c"}`: "<", `{"message":"é`: "é",
	} {
		if got := ReadQuestion(input); got == nil || got.Message != want {
			t.Errorf("%s: %+v, want %q", input, got, want)
		}
	}
	for _, input := range []string{"", "{}", `{"data":"message"}`, `{"message":"\x"}`} {
		if got := ReadQuestion(input); got != nil {
			t.Errorf("%s: %+v", input, got)
		}
	}
}
