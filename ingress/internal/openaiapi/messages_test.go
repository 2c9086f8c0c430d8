package openaiapi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"parley/shared/apierr"
	"parley/shared/domain"
)

// noted collects validation errors in the form "field code".
type noted []string

func (n *noted) wrong(field, code, message string, args ...any) {
	if text := fmt.Sprintf(message, args...); text == "" || strings.Contains(text, "%!") {
		*n = append(*n, "no words: "+text)
	}
	*n = append(*n, field+" "+code)
}

func TestConverse(t *testing.T) {
	t.Parallel()
	say := func(role, text string) Said { return Said{Field: role + " " + text, Role: role, Text: text} }
	f := Said{Role: RoleUser, Files: true}
	u, a, s := func(text string) Said { return say(RoleUser, text) }, func(text string) Said { return say(RoleAssistant, text) },
		func(text string) Said { return say(RoleSystem, text) }
	long := strings.Repeat("é", 900_000)
	for name, tt := range map[string]struct {
		said  []Said
		want  Conversation
		wrong noted
	}{
		"only files":                  {[]Said{f, f}, Conversation{}, nil},
		"files of earlier messages":   {[]Said{f, a("b"), f, u("c")}, Conversation{Message: "c", History: []domain.Exchange{{Message: AttachedText, Answer: "b"}}}, nil},
		"one message":                 {[]Said{u("m")}, Conversation{Message: "m"}, nil},
		"several":                     {[]Said{u("a"), u("b")}, Conversation{Message: "a\n\nb"}, nil},
		"history":                     {[]Said{u("a"), a("b"), u("c")}, Conversation{Message: "c", History: []domain.Exchange{{Message: "a", Answer: "b"}}}, nil},
		"a reference":                 {[]Said{u("a"), {Role: RoleAssistant, RunID: "run_1"}, u("c")}, Conversation{Message: "c", History: []domain.Exchange{{Message: "a"}}}, nil},
		"an answer to nothing":        {[]Said{a("x"), u("m")}, Conversation{Message: "m"}, nil},
		"an empty answer":             {[]Said{u("a"), a(""), u("b")}, Conversation{Message: "a\n\nb"}, nil},
		"answers in a row":            {[]Said{u("a"), a("b"), a("c"), u("d")}, Conversation{Message: "d", History: []domain.Exchange{{Message: "a", Answer: "b\n\nc"}}}, nil},
		"instructions anywhere":       {[]Said{s("1"), u("m"), say(RoleDeveloper, "2"), s("")}, Conversation{Message: "m", Instructions: "1\n\n2"}, nil},
		"nothing":                     {nil, Conversation{}, noted{"list invalid_value"}},
		"an answer last":              {[]Said{u("a"), a("b")}, Conversation{}, noted{"list invalid_value"}},
		"a long message":              {[]Said{u("a"), a("b"), u(long + "x")}, Conversation{Message: long + "x", History: []domain.Exchange{{Message: "a", Answer: "b"}}}, nil},
		"long instructions":           {[]Said{s("first"), s(long), u("m")}, Conversation{Message: "m", Instructions: "first\n\n" + long}, nil},
		"only instructions":           {[]Said{s("x")}, Conversation{Instructions: "x"}, noted{"list invalid_value"}},
		"a long history":              {[]Said{u("a"), a(long), u("m")}, Conversation{Message: "m", History: []domain.Exchange{{Message: "a", Answer: long}}}, nil},
		"empty instructions are none": {[]Said{s(""), u("m")}, Conversation{Message: "m"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var found noted
			got := Converse(tt.said, "list", found.wrong)
			if !reflect.DeepEqual(got, tt.want) || !reflect.DeepEqual(found, tt.wrong) {
				t.Errorf("got %.300v, wrong %.300v", got, found)
			}
		})
	}
}

// A request may contain tens of thousands of messages. Joining consecutive messages of the same
// role must take time and memory that grow linearly with their number.
func TestJoiningMessagesTakesLinearMemory(t *testing.T) {
	t.Parallel()
	const many, each = 40_000, 24
	said := []Said{{Field: "first", Role: RoleUser, Text: "m"}}
	for i := range many {
		said = append(said, Said{Field: index("messages", i), Role: RoleAssistant, Text: strings.Repeat("a", each)})
	}
	said = append(said, Said{Field: "last", Role: RoleUser, Text: "m"})
	var found noted
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := Converse(said, "messages", found.wrong)
	runtime.ReadMemStats(&after)
	// Copying the joined text once per message would allocate ten times this limit. Tests that run
	// in parallel allocate far less than the limit.
	if took, limit := after.TotalAlloc-before.TotalAlloc, uint64(many*many*each/20); took > limit {
		t.Errorf("%d bytes were allocated, want at most %d", took, limit)
	}
	if got.Message != "m" || len(found) > 0 {
		t.Errorf("message %q, wrong %.100v", got.Message, found)
	}
}

func TestMetadataIsBounded(t *testing.T) {
	t.Parallel()
	pairs := func(n int) map[string]string {
		out := map[string]string{}
		for i := range n {
			out[fmt.Sprint("k", i)] = "v"
		}
		return out
	}
	for name, tt := range map[string]struct {
		metadata map[string]string
		want     noted
	}{
		"the most pairs":       {pairs(16), nil},
		"one too many":         {pairs(17), noted{"metadata too_long"}},
		"the longest name":     {map[string]string{strings.Repeat("é", 64): ""}, nil},
		"too long a name":      {map[string]string{strings.Repeat("é", 65): ""}, noted{"metadata too_long"}},
		"the longest value":    {map[string]string{"k": strings.Repeat("é", 512)}, nil},
		"too long values":      {map[string]string{"k": strings.Repeat("é", 513), "a": strings.Repeat("x", 513)}, noted{"metadata.a too_long", "metadata.k too_long"}},
		"with a session":       {map[string]string{"session_id": strings.Repeat("s", 128)}, nil},
		"an unused session is": {map[string]string{"session_id": strings.Repeat("s", 513)}, noted{"metadata.session_id too_long"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			completion := CompletionRequest{Messages: []Message{{Role: RoleUser, Content: &Content{Text: "m"}}}, Metadata: &map[string]*string{}}
			for name, text := range tt.metadata {
				(*completion.Metadata)[name] = &text
			}
			var inCompletion, inResponse noted
			completion.Conversation(inCompletion.wrong)
			ParseResponse(&ResponseBody{
				Input: &ResponseInput{Text: "m"}, Metadata: &tt.metadata, Conversation: &ConversationName{Name: "c"},
			}, inResponse.wrong)
			if slices.Sort(inCompletion); !reflect.DeepEqual(slices.Compact(inCompletion), tt.want) || !reflect.DeepEqual(inResponse, tt.want) {
				t.Errorf("completions %v, responses %v, want %v", inCompletion, inResponse, tt.want)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	field := apierr.Invalid("n", CodeUnsupported, "must be 1: a run has one answer")
	several := &apierr.Error{Code: apierr.InvalidRequest, Detail: "d", Fields: []apierr.Field{{Field: "a", Code: "required", Message: "is required"}, {Field: "b", Code: "x", Message: "is x"}}}
	for _, tt := range []struct {
		status int
		err    *apierr.Error
		want   string
	}{
		{401, apierr.New(apierr.Unauthenticated, "who"), `{"error":{"message":"who","type":"authentication_error","param":null,"code":"invalid_api_key"}}`},
		{403, apierr.New(apierr.CallerNotAllowed, "no"), `{"error":{"message":"no","type":"permission_error","param":null,"code":"caller_not_allowed"}}`},
		{400, field, `{"error":{"message":"n: must be 1: a run has one answer","type":"invalid_request_error","param":"n","code":"unsupported_parameter"}}`},
		{400, several, `{"error":{"message":"a: is required; b: is x","type":"invalid_request_error","param":"a","code":"invalid_request"}}`},
		{404, apierr.Missing(), `{"error":{"message":"no such resource","type":"invalid_request_error","param":null,"code":"not_found"}}`},
		{429, apierr.New(apierr.RateLimited, "slow"), `{"error":{"message":"slow","type":"rate_limit_error","param":null,"code":"rate_limited"}}`},
		{500, apierr.New(apierr.Internal, "oh"), `{"error":{"message":"oh","type":"server_error","param":null,"code":"internal"}}`},
		{503, apierr.New(apierr.Overloaded, "later"), `{"error":{"message":"later","type":"server_error","param":null,"code":"overloaded"}}`},
	} {
		if got := string(Refused(tt.status, tt.err).Body()); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
	for want, run := range map[string]domain.Run{
		"model_rejected":  {Status: domain.RunFailed, Error: &domain.RunError{Code: "model_rejected", Message: "m"}},
		"cancelled":       {Status: domain.RunCancelled},
		"timed_out":       {Status: domain.RunTimedOut},
		"requires_action": {Status: domain.RunRequiresAction, RequiredAction: &domain.RequiredAction{Name: "pay"}},
	} {
		if got := Unanswered(&run); got.Code != want || got.Type != TypeRun || got.Message == "" {
			t.Errorf("%s: %+v", want, got)
		}
	}
}

// FuzzCompletionStream checks that the stream of any log consists of whole frames and ends exactly
// once, with [DONE] or an error.
func FuzzCompletionStream(f *testing.F) {
	for _, seed := range []string{"cd", "cdde", "cdrdde", "cdrxe", "cf", "ca", "cdrde", "e", "ccee", "cdrrrde"} {
		f.Add(seed, "One and two.")
	}
	f.Fuzz(func(t *testing.T, log, answer string) {
		if !utf8.ValidString(answer) {
			return
		}
		run := func(status domain.RunStatus) []byte {
			data, err := json.Marshal(map[string]any{"run": domain.Run{ID: "run_1", Status: status, Message: &answer}})
			if err != nil {
				t.Fatal(err)
			}
			return data
		}
		s := NewCompletionStream("run_01k9z8xh3re8kb1s7v5d2m9q4t", len(log)%2 == 0, View{})
		var out []byte
		ended, at := false, 0
		runes := []rune(answer)
		for _, step := range log {
			e := domain.Event{Data: []byte("{}")}
			switch step {
			case 'c':
				e.Type = domain.EventRunCreated
			case 'd':
				next := min(len(runes), at+2)
				e.Type = domain.EventMessageDelta
				e.Data, _ = domain.DeltaData(string(runes[at:next]))
				at = next
			case 'x':
				e.Type, e.Data = domain.EventMessageDelta, []byte(`{"text":"\u0001"}`)
			case 'r':
				e.Type, at = domain.EventRunRestarted, 0
			case 'a':
				e.Type, e.Data = domain.EventRequiresAction, []byte(`{"requiredAction":{"name":"pay"}}`)
			case 'f':
				e.Type, e.Data = domain.EventRunFailed, run(domain.RunFailed)
			case 'e':
				e.Type, e.Data = domain.EventRunCompleted, run(domain.RunCompleted)
			default:
				e.Type = "later.type"
			}
			var err error
			if out, ended, err = s.Append(out, e); err != nil {
				t.Fatalf("%c: %v", step, err)
			}
		}
		if !ended {
			out = s.Cut(out)
		}
		checkStream(t, string(out), answer)
	})
}

func checkStream(t *testing.T, out, answer string) {
	t.Helper()
	text, ends := "", 0
	for frame := range strings.SplitSeq(strings.TrimSuffix(out, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(frame, "data: ")
		if !ok || ends > 0 {
			t.Fatalf("frame %q after %d ends in %q", frame, ends, out)
		}
		if data == "[DONE]" {
			ends++
			if text != answer {
				t.Errorf("the stream sent %q, the answer is %q", text, answer)
			}
			continue
		}
		var c struct {
			Choices []struct {
				Delta struct {
					Content string `json:"content"`
				} `json:"delta"`
			} `json:"choices"`
			Error *Error `json:"error"`
		}
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatalf("%q: %v", frame, err)
		}
		for _, choice := range c.Choices {
			text += choice.Delta.Content
		}
		if c.Error != nil {
			ends++
		}
	}
	if ends != 1 {
		t.Errorf("%d ends of %q", ends, out)
	}
}
