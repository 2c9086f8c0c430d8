package agentloop_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"parley/shared/domain"
	"parley/workers/internal/agentloop"
	"parley/workers/internal/llm"
)

// maxRunTime is the maximum duration of a generated run. Most of this time is reserved for the
// checks of the answers, because no deadline interrupts these checks. A run usually takes
// milliseconds, so a busy machine stays below this limit.
const maxRunTime = time.Minute

// possibleCodes are the codes with which a generated run may fail. docs/errors.md documents them.
var possibleCodes = []string{
	agentloop.CodeModelUnavailable, agentloop.CodeModelRateLimited, agentloop.CodeModelTimeout, agentloop.CodeModelTruncated,
	agentloop.CodeModelRejected, agentloop.CodeModelQuota, agentloop.CodeModelNotAvailable, agentloop.CodeContextTooLong,
	agentloop.CodeTurnLimit, agentloop.CodeTokenLimit, agentloop.CodeByteLimit, agentloop.CodeToolCallLimit,
	agentloop.CodeToolUnavailable, agentloop.CodeOutputInvalid,
}

// TestGeneratedSchemas runs agents with generated schemas, and with models that give faulty answers
// and call tools of the agent and of the client. Providers fail: they return errors, they break
// streams, and they do not respond.
//
// The data of a completed run must match its schema. A validator without this package's limits
// checks this again. A cited value must occur in its source. A failed run must have a documented
// code. If the code is output_invalid, the error must name the mismatches. LONG=1 tests 100,000
// schemas.
func TestGeneratedSchemas(t *testing.T) {
	t.Parallel()
	n := 3_000
	if long := os.Getenv("LONG"); long != "" && long != "0" && long != "no" { // the same values as in the Makefile
		n = 100_000
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)

	counts := tally{}
	var slowest time.Duration
	for i := range n {
		c := newGeneratedRun(seed, i)
		if c == nil {
			counts["refused"]++
			continue
		}

		began := time.Now()
		synctest.Test(t, func(t *testing.T) {
			o := c.run(t)
			if problem := c.complain(o); problem != "" {
				t.Fatalf("seed %d, run %d, model %s: %s\nschema %s", seed, i, c.model, problem, c.schema)
			}
			counts.add(c, o)
		})
		took := time.Since(began)
		if slowest = max(slowest, took); took > maxRunTime {
			t.Fatalf("seed %d, run %d: it took %v: %s", seed, i, took, c.schema)
		}
	}
	t.Logf("%d schemas, the slowest run took %v\n%s", n, slowest, counts)

	// The generator must produce each outcome.
	for what, atLeast := range map[string]int{
		"completed": n / 10, "refused": n / 20, agentloop.CodeOutputInvalid: n / 20, "completed after calls of tools": n / 100,
		"completed after calls of both kinds of tools": n / 500, "ended with calls of the client": n / 200, "parked": n / 200,
		"completed in a later attempt": n / 200, "values cited": n / 100, "citations removed": n / 50,
	} {
		if counts[what] < atLeast {
			t.Errorf("%s: %d, want at least %d", what, counts[what], atLeast)
		}
	}
	for _, code := range possibleCodes {
		if counts[code] == 0 {
			t.Errorf("no run failed with %s", code)
		}
	}
}

// tally counts outcomes.
type tally map[string]int

func (n tally) add(c *generatedRun, o outcome) {
	if o.parked > 0 {
		n["parked"]++
	}
	if o.err != nil {
		var failed *agentloop.Error
		if !errors.As(o.err, &failed) {
			n["unfinished"]++
			return
		}
		n[failed.Code]++
		return
	}
	n["citations removed"] += o.out.CitationsRemoved
	n["values cited"] += len(o.out.Citations)
	if o.out.Data == nil {
		n["ended with calls of the client"]++
		return
	}
	n["completed"]++
	n["completed with "+c.model]++
	if o.attempts > 1 {
		n["completed in a later attempt"]++
	}
	if o.out.Turns > 1 && len(o.out.ToolCalls) == 0 {
		n["completed after a correction"]++
	}
	kinds := map[bool]int{}
	for _, call := range o.out.ToolCalls {
		kinds[call.Client]++
	}
	if len(kinds) > 0 {
		n["completed after calls of tools"]++
	}
	if len(kinds) > 1 {
		n["completed after calls of both kinds of tools"]++
	}
}

// String returns the counts, one per line, in the order of their names.
func (n tally) String() string {
	var lines []string
	for what, count := range n {
		lines = append(lines, fmt.Sprintf("%s: %d", what, count))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// complain describes the first rule that an outcome violates. It returns "" if the outcome violates
// none.
func (c *generatedRun) complain(o outcome) string {
	var failed *agentloop.Error
	var parked *agentloop.Parked
	switch {
	case o.err == nil && o.out.Data == nil:
		return c.complainOfCalls(o)
	case o.err == nil:
		return c.complainOfData(o)
	case errors.As(o.err, &failed):
		return c.complainOfFailure(o, failed)
	case o.attempts == maxAttempts && (errors.As(o.err, &parked) || errors.Is(o.err, errLost)):
		return ""
	default:
		return "the run ended with " + o.err.Error() // for example, because the deadline of the run has passed
	}
}

// complainOfCalls checks a run that ended with calls of its client.
func (c *generatedRun) complainOfCalls(o outcome) string {
	last := len(o.out.ToolCalls) - 1
	switch {
	case c.client != endsWithCalls || o.out.StopReason != llm.StopToolCalls || last < 0 || o.out.ToolCalls[last].Status != domain.CallPending:
		return fmt.Sprintf("completed without data: %+v", o.out)
	case o.shown.text.Len() > 0 || len(o.shown.outputs) > 0 || o.out.Text != "":
		return fmt.Sprintf("calls with the text %q and events %q", o.out.Text, o.shown.text.String())
	default:
		return ""
	}
}

// complainOfData checks a run that completed with data.
func (c *generatedRun) complainOfData(o outcome) string {
	if fault := mismatch(c.schema, o.out.Data); fault != nil {
		return fmt.Sprintf("completed with %s: %v", o.out.Data, fault)
	}
	if text := string(o.out.Data); o.out.Text != text || o.shown.text.String() != text || !slices.Equal(o.shown.outputs, []string{text}) {
		return fmt.Sprintf("data %s, text %s, events %s and %q", text, o.out.Text, o.shown.text.String(), o.shown.outputs)
	}
	if !o.out.Turn.Whole() {
		return fmt.Sprintf("the session's turn is not complete: %+v", o.out.Turn)
	}
	for _, call := range o.out.ToolCalls {
		if strings.HasPrefix(c.model, "claude") && call.Name == domain.AnswerTool || call.Status == domain.CallPending {
			return fmt.Sprintf("a completed run has the call %+v", call)
		}
	}
	values := map[string]any{}
	for _, l := range leaves(o.out.Text) {
		values[l.path] = l.value
	}
	for _, cited := range o.out.Citations {
		if problem := c.complainOfCitation(o.out.Text, values, cited); problem != "" {
			return fmt.Sprintf("%s: %+v", problem, cited)
		}
	}
	return ""
}

// complainOfCitation checks one citation of a value. values contains the values of the data by
// their paths.
func (c *generatedRun) complainOfCitation(text string, values map[string]any, cited domain.Citation) string {
	value, found := values[cited.Path]
	runes := []rune(text)
	if !found || cited.StartIndex < 0 || cited.EndIndex > len(runes) || cited.StartIndex >= cited.EndIndex {
		return "no such value"
	}
	if cut := string(runes[cited.StartIndex:cited.EndIndex]); len(leaves(cut)) != 1 || leaves(cut)[0].value != value {
		return "the offsets contain " + cut
	}
	source, found := c.sources[cited.Title]
	if !found || !strings.Contains(source, cited.CitedText) || cited.CitedText == "" {
		return "the source does not contain the words: " + source
	}

	// The cited text of a string must be whole words of the source. The cited text of a number must
	// state the same amount.
	if want, ok := value.(string); ok {
		whole := regexp.MustCompile(`(^|\W)` + regexp.QuoteMeta(cited.CitedText) + `($|\W)`)
		if strings.TrimSpace(want) != cited.CitedText || !whole.MatchString(source) {
			return "another string"
		}
		return ""
	}
	amount, err := strconv.ParseFloat(strings.ReplaceAll(cited.CitedText, ",", ""), 64)
	if want, ok := value.(json.Number); err != nil || !ok || strconv.FormatFloat(amount, 'f', -1, 64) != want.String() {
		return "another amount"
	}
	return ""
}

// complainOfFailure checks a failed run.
func (c *generatedRun) complainOfFailure(o outcome, failed *agentloop.Error) string {
	if !slices.Contains(possibleCodes, failed.Code) || failed.Message == "" || !utf8.ValidString(failed.Message) {
		return fmt.Sprintf("the error %s with the message %q", failed.Code, failed.Message)
	}

	// A failed run may have shown an answer only if the answer matches the schema but is too large
	// for the run.
	for _, text := range append(o.shown.outputs, o.shown.text.String()) {
		if text != "" && (failed.Code != agentloop.CodeByteLimit || mismatch(c.schema, []byte(text)) != nil) {
			return fmt.Sprintf("%s after the answer %s was shown", failed.Code, text)
		}
	}

	if failed.Code != agentloop.CodeOutputInvalid {
		if len(failed.Mismatches) > 0 {
			return fmt.Sprintf("%s with mismatches %+v", failed.Code, failed.Mismatches)
		}
		return ""
	}
	if len(failed.Mismatches) == 0 || len(failed.Mismatches) > 20 || o.out.Turns < 2 || failed.Retryable {
		return fmt.Sprintf("%d turns, mismatches %+v", o.out.Turns, failed.Mismatches)
	}
	for _, m := range failed.Mismatches {
		if m.Message == "" || !leads(m.Path, c.answer) {
			return fmt.Sprintf("mismatch %+v of the answer %q", m, c.answer)
		}
	}
	return ""
}

// Names in JSON Pointers are escaped.
var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

// leads reports whether a JSON Pointer leads to a value in an answer, or in the data of an answer
// with an envelope. The empty pointer leads to the whole answer, which may be any text.
func leads(pointer, answer string) bool {
	if pointer == "" {
		return true
	}
	answer = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(answer), "```json"), "```")
	var root any
	// An envelope may be followed by other text.
	if !strings.HasPrefix(pointer, "/") || json.NewDecoder(strings.NewReader(answer)).Decode(&root) != nil {
		return false
	}
	for _, from := range []string{"", "/data"} {
		at, found := root, true
		for name := range strings.SplitSeq((from + pointer)[1:], "/") {
			name = unescaper.Replace(name)
			switch v := at.(type) {
			case map[string]any:
				at, found = v[name], found && hasKey(v, name)
			case []any:
				i, err := strconv.Atoi(name)
				if found = found && err == nil && i < len(v); found {
					at = v[i]
				}
			default:
				found = false
			}
		}
		if found {
			return true
		}
	}
	return false
}

func hasKey(object map[string]any, name string) bool {
	_, found := object[name]
	return found
}

// leaf is a string or a number in a JSON text, with its path as a JSON Pointer.
type leaf struct {
	path  string
	value any // a string or a json.Number
}

// leaves returns the strings and numbers of a JSON text, or nil if the text is not valid JSON.
func leaves(text string) (all []leaf) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var root any
	if err := d.Decode(&root); err != nil {
		return nil
	}
	var walk func(path string, value any)
	walk = func(path string, value any) {
		switch v := value.(type) {
		case map[string]any:
			for name, member := range v {
				walk(path+"/"+escaper.Replace(name), member)
			}
		case []any:
			for i, item := range v {
				walk(path+"/"+strconv.Itoa(i), item)
			}
		case string, json.Number:
			all = append(all, leaf{path, v})
		}
	}
	walk("", root)
	slices.SortFunc(all, func(a, b leaf) int { return strings.Compare(a.path, b.path) })
	return all
}
