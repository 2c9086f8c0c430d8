package agentloop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"parley/shared/domain"
	"parley/shared/testkit/anthropicstub"
	"parley/shared/testkit/modelstub"
	"parley/shared/testkit/openaistub"
	"parley/workers/internal/agentloop"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/anthropic"
	"parley/workers/internal/llm/llmtest"
	"parley/workers/internal/llm/offline"
	"parley/workers/internal/llm/openai"
	"parley/workers/internal/llm/scripted"
	"parley/workers/internal/tool"
)

// Names of the tools in generated runs: the agent's tool, the client's tool, and a tool that does
// not exist.
const (
	ownTool     = "look"
	clientTool  = "ask"
	missingTool = "nothing"
)

// maxAttempts is the number of attempts of a generated run.
const maxAttempts = 4

// generatedRun is a run with a generated schema. Its model, its tools, its limits and the faults of
// the model are also generated. A run has the same course each time it is generated with the same
// seed.
type generatedRun struct {
	schema   string
	contract *agentloop.Contract
	message  string
	model    string            // offline, scripted, or the name of a model of a stub
	replies  []modelstub.Reply // replies of the model in order; the offline model ignores them
	own      bool              // the agent has a tool
	client   clientMode
	refuses  bool // the client's results are errors
	limits   agentloop.Limits
	retries  bool // the process permits retries of model calls
	lost     int  // the first attempt is lost after this number of recorded steps; negative: it is not lost

	mu      sync.Mutex
	sources map[string]string // texts of the sources that the agent's tool returned, by title
	made    map[string]int    // executed calls of the agent's tool by their arguments
	replied bool              // the client has sent its results
	answer  string            // the model's last answer
}

// clientMode determines how a client handles calls of its tool.
type clientMode int

const (
	noClientTool   clientMode = iota
	endsWithCalls             // the run ends with the client's calls, as with the API under /v1
	repliesAtOnce             // the results are known before the calls
	repliesOnceHit            // the run is parked until the client has sent the results
)

// newGeneratedRun generates the run with the number i from a seed. It returns nil if the generated
// schema is refused.
func newGeneratedRun(seed uint64, i int) *generatedRun {
	g := generator{rand.New(rand.NewPCG(seed, uint64(i)))}
	c := &generatedRun{schema: g.schema(4), sources: map[string]string{}, made: map[string]int{}, lost: -1}
	var err error
	if c.contract, err = agentloop.NewContract(json.RawMessage(c.schema)); err != nil {
		return nil // for example, because the schema refers to itself without end
	}
	c.message = g.words()
	c.model = pick(g, "offline", "scripted", "scripted", "gpt-5-mini", "gpt-5-mini", "claude-haiku-4-5", "claude-sonnet-5-5")
	if g.n(2) == 0 {
		c.own = true
		c.client = pick(g, noClientTool, noClientTool, endsWithCalls, repliesAtOnce, repliesOnceHit)
	}
	c.refuses, c.retries = g.n(4) == 0, g.n(2) == 0
	if g.n(8) == 0 {
		c.limits = pick(g, agentloop.Limits{MaxTurns: 1}, agentloop.Limits{MaxTurns: 2}, agentloop.Limits{MaxTokens: 30},
			agentloop.Limits{MaxBytes: 200}, agentloop.Limits{MaxToolCalls: 1})
	}
	if g.n(10) == 0 {
		c.lost = g.n(3)
	}
	for i := range 6 {
		c.replies = append(c.replies, c.reply(g, i == 0))
	}
	if g.n(10) == 0 { // the provider fails until the end of the run
		fault := pick(g, append([]string{"429", "429", "429", "hang", "503"}, replacingFaults...)...)
		for i := g.n(3); i < len(c.replies); i++ {
			c.replies[i].Fault = fault
		}
	}
	return c
}

// Faults of a model's reply. A fault in the first list replaces the reply, and a fault in the second
// list interrupts it; see package modelstub.
var (
	replacingFaults    = []string{"400", "401", "404", "408", "422", "429", "500", "502", "503", "529", "refuse", "hang", "context", "quota", "html"}
	interruptingFaults = []string{"cut", "eof", "stall", "badjson", "event", "badargs", "cutcall", "length", "content_filter", "nousage"}
)

// reply returns a reply of the model: an answer or tool calls, and perhaps a fault. The first reply
// usually calls tools.
func (c *generatedRun) reply(g generator, first bool) modelstub.Reply {
	var r modelstub.Reply
	answer := g.answer(c.schema, c.own)
	switch {
	case c.own && (first && g.n(5) > 0 || g.n(5) == 0):
		for range 1 + g.n(3) {
			r.ToolCalls = append(r.ToolCalls, c.call(g))
		}
		if g.n(3) == 0 {
			r.Deltas = g.pieces(answer)
		}
	case g.n(4) == 0: // anthropic.answerTool; for other models, an unknown tool
		r.ToolCalls = []modelstub.ToolCall{{ID: "answer", Name: domain.AnswerTool, Arguments: answer}}
	default:
		r.Deltas = g.pieces(answer)
	}
	switch g.n(10) {
	case 0:
		r.Fault = pick(g, replacingFaults...)
		r.Param = pick(g, "", "0", "1", "30")
	case 1:
		r.Fault = pick(g, interruptingFaults...)
		if r.Fault == "badargs" {
			r.Param = ownTool
		}
	}
	return r
}

// call returns a call of a tool. Its arguments determine what the agent's tool does.
func (c *generatedRun) call(g generator) modelstub.ToolCall {
	call := modelstub.ToolCall{ID: pick(g, "", "c1", "c2", "c3"), Name: ownTool}
	text := g.words() + "."
	for i, l := range leaves(g.answer(c.schema, false)) {
		if i < 20 {
			text += fmt.Sprintf(" It is %v.", l.value)
		}
	}
	call.Arguments = written(map[string]string{"text": text})
	switch g.n(10) {
	case 0:
		call.Name = missingTool
	case 1:
		call.Arguments = `{"text": "unclosed`
	case 2:
		call.Arguments = written(map[string]string{"do": pick(g, "fail", "panic", "unavailable", "down", "approval", "badjson", "large")})
	case 3, 4, 5:
		if c.client != noClientTool {
			call.Name = clientTool
		}
	}
	return call
}

// pieces divides a text into at most four pieces, at the boundaries of characters.
func (g generator) pieces(text string) (all []string) {
	for len(all) < 3 && len(text) > 1 {
		at := 1 + g.n(len(text)-1)
		for at < len(text) && !utf8.RuneStart(text[at]) {
			at++
		}
		all, text = append(all, text[:at]), text[at:]
	}
	if text != "" {
		all = append(all, text)
	}
	return all
}

// open returns the model of the run. A stub's model is called over the protocol of its provider.
func (c *generatedRun) open(t *testing.T) llm.Model {
	t.Helper()
	var provider llm.Provider
	var err error
	switch {
	case c.model == "offline":
		return offline.Model{}
	case c.model == "scripted":
		return scripted.New(c.model, c.script()...)
	case strings.HasPrefix(c.model, "gpt"):
		stub := openaistub.New()
		stub.Script(c.replies...)
		p, failed := openai.New(openai.Config{APIKey: "sk-x", BaseURL: "http://stub.example/v1", Dial: llmtest.Serve(t, stub)})
		t.Cleanup(p.Close)
		provider, err = p, failed
	default:
		stub := anthropicstub.New()
		stub.Script(c.replies...)
		p, failed := anthropic.New(anthropic.Config{APIKey: "sk-x", BaseURL: "http://stub.example", Dial: llmtest.Serve(t, stub)})
		t.Cleanup(p.Close)
		provider, err = p, failed
	}
	if err != nil {
		t.Fatal(err)
	}
	m, err := provider.Model(c.model)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// faultKinds are the kinds of the errors that the scripted model returns for faults. Faults that
// are not in the table have no effect on this model, except for "length" and "content_filter".
var faultKinds = map[string]llm.Kind{
	"400": llm.KindInvalid, "401": llm.KindAuth, "404": llm.KindUnknownModel, "408": llm.KindTimeout, "422": llm.KindNotConfigured, "429": llm.KindRateLimited,
	"500": llm.KindUnavailable, "502": llm.KindUnavailable, "503": llm.KindUnavailable, "529": llm.KindUnavailable, "refuse": llm.KindUnavailable,
	"hang": llm.KindTimeout, "context": llm.KindContextLength, "quota": llm.KindQuota, "html": llm.KindBadResponse,
	"cut": llm.KindTruncated, "eof": llm.KindTruncated, "stall": llm.KindTimeout, "badjson": llm.KindBadResponse, "event": llm.KindUnavailable,
	"cutcall": llm.KindTooLarge,
}

// script converts the replies to the script of a scripted model.
func (c *generatedRun) script() (calls []scripted.Call) {
	for _, r := range c.replies {
		call := scripted.Call{Deltas: r.Deltas, Usage: llm.Usage{InputTokens: 1, OutputTokens: 1}}
		for _, one := range r.ToolCalls {
			call.ToolCalls = append(call.ToolCalls, llm.NewToolCall(one.ID, one.Name, one.Arguments))
		}
		if kind := faultKinds[r.Fault]; kind != "" {
			failure := llm.NewError(kind, errors.New("generated"))
			if r.Param == "30" {
				failure.RetryAfter = 30 * time.Second
			}
			call.Err = failure
		}
		if r.Fault == "length" || r.Fault == "content_filter" {
			call.Stop = llm.StopReason(r.Fault)
		}
		calls = append(calls, call)
	}
	return calls
}

// usualValues is a source that contains most of the values that generated answers contain. It
// contains "ab" and "A1" only in longer words.
const usualValues = "abc, A12 and 2026-03-04; red or green, a b, x. It is 5, or 1, or 2 and 2.5; 0 and -1."

// look is the agent's tool. It returns two sources.
func (c *generatedRun) look(_ context.Context, call tool.Call) (tool.Result, error) {
	var arguments struct {
		Text string `json:"text"`
		Do   string `json:"do"`
	}
	if err := json.Unmarshal(call.Arguments, &arguments); err != nil {
		return tool.Result{}, &tool.Error{Message: "The arguments are wrong."}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made[arguments.Do]++
	switch first := c.made[arguments.Do] == 1; arguments.Do {
	case "fail":
		return tool.Result{}, &tool.Error{Message: "It failed."}
	case "panic":
		panic("generated")
	case "unavailable", "down":
		if first || arguments.Do == "down" {
			return tool.Result{}, &tool.Error{Message: "It is not available.", Retryable: true}
		}
	case "approval":
		if first {
			return tool.Result{}, &tool.ActionRequired{Kind: domain.ActionApproval, Call: call}
		}
	case "badjson":
		return tool.Result{Output: json.RawMessage(`{"a":`)}, nil
	case "large":
		arguments.Text = strings.Repeat("The lamp costs 7 euros. ", 2_000)
	}

	// The citations of the run contain the titles, by which the tests find the texts of the
	// sources.
	result := tool.Result{Output: json.RawMessage(written(arguments.Text))}
	for _, text := range []string{arguments.Text, usualValues} {
		title := fmt.Sprintf("source %d", len(c.sources))
		c.sources[title] = text
		result.Sources = append(result.Sources, domain.Citation{Type: "web", Title: title, URL: "https://example.com", CitedText: text})
	}
	return result, nil
}

// answerKeeper is a model that stores its last answer.
type answerKeeper struct {
	llm.Model

	answer *string
}

// Stream calls the model; see [llm.Model].
func (m answerKeeper) Stream(ctx context.Context, req llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	res, err := m.Model.Stream(ctx, req, emit)
	*m.answer = res.Text
	return res, err //nolint:wrapcheck // a test
}

// input returns the input of the run's attempts.
func (c *generatedRun) input(t *testing.T) agentloop.Input {
	t.Helper()
	in := agentloop.Input{Message: c.message, Model: answerKeeper{c.open(t), &c.answer}, Contract: c.contract, Limits: c.limits}
	if c.own {
		in.Tools = registry(t, &fake{name: ownTool, do: c.look})
	}
	if c.client == noClientTool {
		return in
	}
	in.Client = &agentloop.ClientTools{Specs: []llm.ToolSpec{{Name: clientTool, Schema: json.RawMessage(`{"type":"object"}`)}}, IDPrefix: "call_g_"}
	if c.client != endsWithCalls {
		in.Client.Results = func(_ context.Context, calls []domain.ClientCall) ([]domain.ClientResult, bool, error) {
			results := make([]domain.ClientResult, len(calls))
			for i, call := range calls {
				results[i] = domain.ClientResult{ToolCallID: call.ToolCallID, Output: json.RawMessage(`{"rate":3}`), IsError: c.refuses}
			}
			return results, c.replied || c.client == repliesAtOnce, nil
		}
	}
	return in
}

// shown contains the text and the data that one attempt of a run has published.
type shown struct {
	text    strings.Builder
	outputs []string // data of output.delta events
}

func (s *shown) add(e agentloop.Event) {
	switch e.Type {
	case agentloop.EventDelta:
		_, _ = s.text.WriteString(e.Text) // never fails
	case agentloop.EventOutput:
		s.outputs = append(s.outputs, string(e.Data))
	}
}

// outcome is the end of a generated run.
type outcome struct {
	out      agentloop.Output
	err      error
	attempts int
	parked   int // number of attempts that ended because the run waited for a person or the client
	shown    *shown
}

// run executes the run as a worker does: after a retryable error, or when the run no longer waits,
// another attempt continues after the recorded steps. run must be called in a synctest bubble, so
// that delays and time limits take no time.
func (c *generatedRun) run(t *testing.T) (o outcome) {
	t.Helper()
	loop := agentloop.New(agentloop.Config{Jitter: func() float64 { return 0.5 }, Retry: func() bool { return c.retries }})
	in, journal := c.input(t), newMemory()
	journal.left = c.lost

	// The deadline is longer than the time limits of all model calls together.
	ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
	defer cancel()
	for o.attempts < maxAttempts {
		o.attempts, o.shown = o.attempts+1, &shown{}
		o.out, o.err = loop.Run(ctx, in, journal, o.shown.add)
		var parked *agentloop.Parked
		var failed *agentloop.Error
		switch {
		case errors.As(o.err, &parked):
			o.parked, c.replied = o.parked+1, true
		case errors.Is(o.err, errLost): // another worker continues the run
			journal.left = -1
		case !errors.As(o.err, &failed) || !failed.Retryable:
			return o
		}
		if o.shown.text.Len() > 0 || len(o.shown.outputs) > 0 {
			return o // complain then reports an error, because an incomplete attempt has shown an answer
		}
	}
	return o
}
