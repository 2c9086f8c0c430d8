package offline_test

import (
	"strings"
	"testing"
	"time"

	"parley/shared/domain"
	"parley/shared/testkit/cputime"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/offline"
)

// TestLargeInputsAreReadOnce checks that the time of all rules grows linearly with the input.
func TestLargeInputsAreReadOnce(t *testing.T) {
	t.Parallel()
	long := func(s string) string { return strings.Repeat(s, 16_000/len(s)) }
	for _, message := range []string{
		long("{"), long(`{"a":`), long("sku: "), long("sku: 1 "), long("1 "), long("a_b "), long("in "), long(`"`), long("[1] "), long("?"), long("a. "), long("塔"),
		"plot " + long("x^"), "the sum of " + long("1 and "), "plot " + long("(") + " from 0 to 1", "compute 1" + long(" and plot it"), "sum of " + long("1,"),
		"stock_level " + long(`{"sku":{`), "mail_send to: " + long(", "),
	} {
		took := cputime.Of(func() {
			req := llm.Request{Tools: tools(), Messages: []llm.Message{{Role: llm.RoleUser, Text: "stock_level weather mail_send " + message}}}
			if _, err := (offline.Model{}).Stream(t.Context(), req, func(llm.Delta) {}); err != nil {
				t.Fatal(err)
			}
			source := domain.Citation{ID: 1, CitedText: message}
			req.Messages = append(req.Messages, llm.Message{Role: llm.RoleTool, Result: &llm.ToolResult{Name: "webSearch", Sources: []domain.Citation{source}}})
			if _, err := (offline.Model{}).Stream(t.Context(), req, func(llm.Delta) {}); err != nil {
				t.Fatal(err)
			}
		})
		if took > 10*time.Second { // linear rules take less than a second, quadratic rules minutes
			t.Errorf("%.20q took %v", message, took)
		}
	}
}

// The rules examine only the beginning of a message. So a message of 2 MiB takes no longer than one
// of 32,000 characters.
func TestTheRulesReadTheBeginningOfAMessage(t *testing.T) {
	t.Parallel()
	answer := func(message string) string {
		req := llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Text: message}}}
		res, err := (offline.Model{}).Stream(t.Context(), req, func(llm.Delta) {})
		if err != nil {
			t.Fatal(err)
		}
		return res.Text
	}
	const asks = " What is 12 * 12?"
	long := strings.Repeat("塔 ", 16_000)
	if !strings.Contains(answer(long[:3000]+asks), "144") {
		t.Errorf("a short message is answered %q", answer(long[:3000]+asks))
	}
	if got := answer(long + asks); strings.Contains(got, "144") {
		t.Errorf("the answer to a long message depends on the message's end: %q", got)
	}
}
