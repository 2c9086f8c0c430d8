package offline_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"parley/workers/internal/llm"
	"parley/workers/internal/llm/llmtest"
	"parley/workers/internal/llm/offline"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	t.Run("offline", func(t *testing.T) {
		t.Parallel()
		llmtest.Run(t, llmtest.Subject{Deterministic: true, New: func(*testing.T) llm.Model { return offline.Model{} }})
	})
	t.Run("echo", func(t *testing.T) {
		t.Parallel()
		llmtest.Run(t, llmtest.Subject{Deterministic: true, New: func(*testing.T) llm.Model { return offline.Echo{} }})
	})
}

func TestProvider(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"": "offline", "echo": "offline/echo"} {
		if m, err := (offline.Provider{}).Model(name); err != nil || m.Info().Name != want {
			t.Errorf("%q: %v", name, err)
		}
	}
	var e *llm.Error
	if _, err := (offline.Provider{}).Model("slow"); !errors.As(err, &e) || e.Kind != llm.KindUnknownModel {
		t.Errorf("got %v", err)
	}
}

func TestEcho(t *testing.T) {
	t.Parallel()
	for message, words := range map[string]int64{"hi": 1, "  two words\n": 2, "": 0, "ünï\u2003code  x": 3} {
		deltas := 0
		res, err := offline.Echo{}.Stream(t.Context(), llm.Request{
			System: "ignored", SessionStart: true,
			Messages: []llm.Message{{Role: llm.RoleUser, Text: "old"}, {Role: llm.RoleUser, Text: message, Data: []byte(`{"a":1}`)}},
		}, func(llm.Delta) { deltas++ })
		if err != nil || res.Text != "echo: "+message || deltas != 1 {
			t.Errorf("%q: got %q in %d, %v", message, res.Text, deltas, err)
		}
		if res.Usage != (llm.Usage{InputTokens: words, OutputTokens: words + 1}) {
			t.Errorf("%q: usage %+v", message, res.Usage)
		}
	}
}

// TestAnswersEndAtTheTokenLimit checks that an answer of the offline models has at most as many
// words as the request allows.
func TestAnswersEndAtTheTokenLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		model llm.Model
		limit int64
		want  string
		stop  llm.StopReason
	}{
		"no limit":      {offline.Echo{}, 0, "echo: one  two three", llm.StopEnd},
		"enough":        {offline.Echo{}, 4, "echo: one  two three", llm.StopEnd},
		"too few":       {offline.Echo{}, 3, "echo: one  two", llm.StopLength},
		"offline model": {offline.Model{}, 2, "(Offline model:", llm.StopLength},
	} {
		deltas := ""
		res, err := c.model.Stream(t.Context(), llm.Request{
			MaxTokens: c.limit, SessionStart: true, Messages: []llm.Message{{Role: llm.RoleUser, Text: "one  two three"}},
		}, func(d llm.Delta) { deltas += d.Text })
		if err != nil || res.Text != c.want || deltas != c.want || res.StopReason != c.stop {
			t.Errorf("%s: %q %q %s, %v", name, res.Text, deltas, res.StopReason, err)
		}
		if c.limit > 0 && res.Usage.OutputTokens > c.limit {
			t.Errorf("%s: %d tokens", name, res.Usage.OutputTokens)
		}
	}
}

func ask(t *testing.T, req llm.Request, messages ...string) llm.Response {
	t.Helper()
	for i, m := range messages {
		role := llm.RoleUser
		if (len(messages)-i)%2 == 0 {
			role = llm.RoleAssistant
		}
		req.Messages = append(req.Messages, llm.Message{Role: role, Text: m})
	}
	res, err := offline.Model{}.Stream(t.Context(), req, func(llm.Delta) {})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestSaysWhatItIsOnce(t *testing.T) {
	t.Parallel()
	first := ask(t, llm.Request{SessionStart: true}, "Hello")
	if first.Text != "(Offline model: fixed rules, no language model.)\n\nHello. What can I do for you?" || first.Model != "offline" {
		t.Errorf("got %q of %q", first.Text, first.Model)
	}
	if later := ask(t, llm.Request{}, "Hello", first.Text, "Thanks!"); later.Text != "You are welcome." {
		t.Errorf("got %q", later.Text)
	}
}

func TestAnswersWithoutTools(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, system, want string
		data               string
		messages           []string
	}{
		{name: "arithmetic", messages: []string{"What is 17 * 23?"}, want: "17 * 23 = 391"},
		{name: "spelled", messages: []string{"what's 3 plus 4 times 5"}, want: "3 + 4 * 5 = 23"},
		{name: "brackets, power, sign", messages: []string{"calculate -(2 + 3)^2 / 5"}, want: "-(2 + 3)^2 / 5 = -5"},
		{name: "decimals are exact", messages: []string{"0.1 + 0.2"}, want: "0.1 + 0.2 = 0.3"},
		{name: "thousands", messages: []string{"How much is 1,000,000 / 8"}, want: "1000000 / 8 = 125000"},
		{name: "no end", messages: []string{"10 / 4 - 1 / 3"}, want: "10 / 4 - 1 / 3 ≈ 2.1667"},
		{name: "by zero", messages: []string{"5 / (3 - 3)"}, want: "5 / (3 - 3) has no value: it divides by zero."},
		{name: "too large", messages: []string{"9 ^ 9 ^ 9"}, want: "9 ^ 9 ^ 9 is too large for me to calculate."},
		{name: "a date is none", messages: []string{"Come on 2025-01-02 then"}, want: `I have read your message (4 words): “Come on 2025-01-02 then”.`},
		{name: "hours are none", messages: []string{"open 24/7 or 9-17"}, want: `I have read your message (4 words): “open 24/7 or 9-17”.`},
		{name: "noting", messages: []string{"My favourite colour is dark green."}, want: "Noted: your favourite colour is dark green."},
		{
			name: "recalling", messages: []string{"my name is Ada", "Noted.", "and my cat is Bo", "Noted.", "What is my name?"},
			want: "You said that your name is Ada.",
		},
		{
			name: "the latest counts", messages: []string{"the code word is heron", "ok", "The code word is crane.", "ok", "what's the code word?"},
			want: "You said that the code word is crane.",
		},
		{name: "quoting", messages: []string{"one", "ok", "two", "ok", "What did I just say?"}, want: "Before this you wrote: “two”."},
		{name: "quoting the first", messages: []string{"one", "ok", "two", "ok", "What did I say first?"}, want: "The first message of yours that I can see was: “one”."},
		{name: "nothing to quote", messages: []string{"what did I say?"}, want: "This is the first message of yours that I can see in this session."},
		{name: "kept", messages: []string{"Remember that bread is out", "ok", "Do you remember?"}, want: "You asked me to remember: “bread is out”."},
		{
			name: "instructions", system: "You are kind. The shop's opening hours are 9 to 17. Never swear.", messages: []string{"What are your opening hours?"},
			want: "According to my instructions: The shop's opening hours are 9 to 17.",
		},
		{name: "data asked for", data: `{"orderId":7,"note":"x"}`, messages: []string{"Which orderId came?"}, want: "The data sent along says orderId is 7."},
		{name: "data", data: `{"orderId":7,"note":"x"}`, messages: []string{"Handle this"}, want: "I have read your message, “Handle this”, and the data sent along (note, orderId)."},
		{
			name: "unknown", messages: []string{"Who painted it?"},
			want: "You asked: “Who painted it?”. I have no tool and no note that answers this, and without a language model I do not guess.",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			req := llm.Request{System: tt.system}
			if tt.data != "" {
				req.Messages = []llm.Message{{Role: llm.RoleUser, Text: tt.messages[0], Data: []byte(tt.data)}}
				tt.messages = nil
			}
			if res := ask(t, req, tt.messages...); res.Text != tt.want {
				t.Errorf("got  %q\nwant %q", res.Text, tt.want)
			}
		})
	}
}

func tools() []llm.ToolSpec {
	object := func(s string) json.RawMessage { return json.RawMessage(`{"type":"object",` + s + `}`) }
	return []llm.ToolSpec{
		{Name: "codeExecution", Schema: object(`"properties":{"code":{"type":"string"}},"required":["code"]`)},
		{Name: "crm_findOrder", Schema: object(`"properties":{"id":{"type":"integer"},"deep":{"type":"boolean"}},"required":["id"]`)},
		{Name: "crm_find", Schema: object(`"properties":{"text":{"type":"string"}},"required":["text"]`)},
		{Name: "knowledge", Schema: object(`"properties":{"query":{"type":"string"}},"required":["query"]`)},
		{Name: "mail_send", Schema: object(`"properties":{"to":{"type":"string","format":"email"},"subject":{"type":"string"},"body":{"type":"string"},` +
			`"priority":{"enum":["low","normal","high"]},"copies":{"type":"array","items":{"type":"string"}}},"required":["to","body","priority"]`)},
		{Name: "ping", Schema: json.RawMessage(`{"type":"object"}`)},
		{Name: "stock_level", Schema: object(`"properties":{"sku":{"type":"string"},"count":{"type":"integer"}},"required":["sku","count"]`)},
		{Name: "sum", Schema: object(`"properties":{"a":{"type":"number"},"b":{"type":["number","null"]}},"required":["a","b"]`)},
		{Name: "weather", Schema: object(`"properties":{"city":{"type":"string"},"days":{"anyOf":[{"type":"integer"},{"type":"null"}]},` +
			`"place":{"type":"object","properties":{"zone":{"const":"UTC"}},"required":["zone"]}},"required":["city","place"]`)},
		{Name: "webSearch", Schema: object(`"properties":{"question":{"type":"string"}},"required":["question"]`)},
	}
}

func TestAsksForToolsThatFit(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"Who built the tower?":                        `call_1 knowledge {"query":"Who built the tower?"}`,
		"Search the web for the tower's builder":      `call_1 webSearch {"question":"the tower's builder"}`,
		"埃菲尔铁塔有多高？":                                   `call_1 knowledge {"query":"埃菲尔铁塔有多高？"}`,
		"What is 2 + 2?":                              `call_1 codeExecution {"code":"print(2 + 2)\n"}`,
		"2^10":                                        `call_1 codeExecution {"code":"print(2**10)\n"}`,
		"Run this:\n```python\nprint('é')\n```":       `call_1 codeExecution {"code":"print('é')\n"}`,
		"ping it":                                     `call_1 ping {}`,
		"stock_level for sku: A-7 and count = 3":      `call_1 stock_level {"count":3,"sku":"A-7"}`,
		"stock_level, sku: \"A, 7\", count: 12":       `call_1 stock_level {"count":12,"sku":"A, 7"}`,
		`ask stock_level {"sku":"B","count":12}`:      `call_1 stock_level {"count":12,"sku":"B"}`,
		`stock level of {"sku":"B"} count: 4`:         `call_1 stock_level {"count":4,"sku":"B"}`,
		"sum of a: 3 and b: -4.5":                     `call_1 sum {"a":3,"b":-4.5}`,
		"What is the weather, city: New York?":        `call_1 weather {"city":"New York","place":{"zone":"UTC"}}`,
		"weather city: 東京, days: 3":                   `call_1 weather {"city":"東京","days":3,"place":{"zone":"UTC"}}`,
		"crm_find text: \"blue shoes\"":               `call_1 crm_find {"text":"blue shoes"}`,
		"Find the order in the CRM, id: 42, deep: no": `call_1 crm_findOrder {"deep":false,"id":42}`,
		"Use crm_findOrder and ping":                  `call_1 ping {}`,
		"Send a mail to: ada@example.com with priority: high, body: \"Hi, Ada\"": `call_1 mail_send {"body":"Hi, Ada","priority":"high","to":"ada@example.com"}`,
		"mail_send to: a@b.example; subject: Lunch; copies: c@d.example, e@f.example\nbody: See you. Priority: low": `call_1 mail_send ` +
			`{"body":"See you","copies":["c@d.example","e@f.example"],"priority":"low","subject":"Lunch","to":"a@b.example"}`,
		"Good morning": ``,
		"a statement about stock_levels elsewhere": ``,
		"a statement that mails are sent":          ``,
	}
	for message, want := range tests {
		t.Run(message, func(t *testing.T) {
			t.Parallel()
			res := ask(t, llm.Request{Tools: tools(), SessionStart: true}, message)
			var got []string
			for _, c := range res.ToolCalls {
				got = append(got, c.ID+" "+c.Name+" "+string(c.Arguments))
			}
			if strings.Join(got, "; ") != want {
				t.Errorf("got  %q\nwant %q", strings.Join(got, "; "), want)
			}
			if want != "" && (res.Text != "" || res.StopReason != llm.StopToolCalls) {
				t.Errorf("got %+v", res)
			}
		})
	}
}

func TestRemembersWithoutTools(t *testing.T) {
	t.Parallel()
	if res := ask(t, llm.Request{Tools: tools()}, "my name is Ada", "ok", "What is my name?"); len(res.ToolCalls) > 0 || res.Text != "You said that your name is Ada." {
		t.Errorf("got %+v", res)
	}
}

func TestAnyMessageIsAnswered(t *testing.T) {
	t.Parallel()
	for _, message := range []string{
		"", " ", "?", "```", "((((((((1+1", strings.Repeat("-", 500) + "1+1", strings.Repeat("(", 300) + "1+1" + strings.Repeat(")", 300),
		"{", "}{", "null {null}", "1..2 + 3", "\xff\xfe", strings.Repeat("why ", 8000) + "?", "my is", "remember ",
	} {
		var got strings.Builder
		res, err := offline.Model{}.Stream(t.Context(), llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Text: message}}},
			func(d llm.Delta) { got.WriteString(d.Text) })
		if err != nil || res.Text == "" || got.String() != res.Text {
			t.Errorf("%.20q: got %q, %v", message, res.Text, err)
		}
	}
	if res := ask(t, llm.Request{}); res.Text == "" {
		t.Error("no message, no answer")
	}
}

func BenchmarkEcho(b *testing.B) {
	req := llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Text: "a message of a few words"}}}
	emit := func(llm.Delta) {}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (offline.Echo{}).Stream(b.Context(), req, emit); err != nil {
			b.Fatal(err)
		}
	}
}
