package providers_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"parley/shared/testkit/anthropicstub"
	"parley/shared/testkit/modelstub"
	"parley/shared/testkit/openaistub"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/anthropic"
	"parley/workers/internal/llm/openai"
)

// stub is a server that implements the protocol of a provider. It derives each answer from the
// prompt, or follows a script.
type stub interface {
	http.Handler
	Count(prompt string) int
	Total() int
	Requests() []modelstub.Request
	Script(replies ...modelstub.Reply)
}

// protocol describes the protocol of a provider. Each test of remote providers runs once for each
// protocol.
type protocol struct {
	name, base string // the name of the provider, and the path at the end of its base URL
	model      string // name of the model in the recordings
	endpoint   string
	make       func(openai.Config) (llm.Provider, func(), error)
	stub       func() stub
	// These are the server-sent events of an answer: the first event, an event with the text "x",
	// the last event, and a keep-alive.
	first, piece, last, alive string

	environment map[string]string // environment variables that the SDK's own client reads
	headers     []string          // headers that the SDK's own client would send
	faults      map[string]fault
	answers     map[string]string // expected answers by the names of recordings
	failures    map[string]failure
	limited     []string // names of recordings with a rate limit
	schemas     []string // invalid schemas
}

// fault is the expected error of a call that the stub was instructed to fail.
type fault struct {
	kind      llm.Kind
	retryable bool
	unused    bool // true if the provider has certainly not processed the call
}

// failure is the expected error of a call whose response is a recorded error.
type failure struct {
	kind      llm.Kind
	retryable bool
}

func protocols() []*protocol { return []*protocol{overOpenAI(), overAnthropic()} }

// each runs a test once for each protocol.
func each(t *testing.T, test func(t *testing.T, p *protocol)) {
	t.Helper()
	for _, p := range protocols() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			test(t, p)
		})
	}
}

// new returns the model with the given name. Its provider has the settings cfg.
func (p *protocol) new(t *testing.T, cfg openai.Config, name string) llm.Model {
	t.Helper()
	provider, closing, err := p.make(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closing)
	m, err := provider.Model(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// against returns a model that sends its requests to the given handler.
func (p *protocol) against(t *testing.T, h http.Handler) llm.Model {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return p.new(t, openai.Config{APIKey: "sk-leak", BaseURL: server.URL + p.base}, p.model)
}

func overOpenAI() *protocol {
	return &protocol{
		name: "openai", base: "/v1", model: "gpt-5-mini", endpoint: "/v1/chat/completions",
		make: func(cfg openai.Config) (llm.Provider, func(), error) {
			p, err := openai.New(cfg)
			return p, p.Close, err
		},
		stub:  func() stub { return openaistub.New() },
		piece: `data: {"choices":[{"index":0,"delta":{"content":"x"}}]}` + "\n\n",
		last:  `data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}` + "\n\n",
		alive: ": still here\n\n",
		environment: map[string]string{
			"OPENAI_API_KEY": "sk-environment", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "OPENAI_ORG_ID": "org-environment",
			"OPENAI_CUSTOM_HEADERS": "X-Environment: yes",
		},
		headers: []string{"Authorization", "Openai-Organization", "X-Environment"},
		limited: []string{"error_429_rate.json"},
		schemas: []string{`[]`},
		faults: map[string]fault{
			"fault refuse: a b c":  {llm.KindUnavailable, true, false},
			"fault 500: a b c":     {llm.KindUnavailable, true, false},
			"fault 503: a b c":     {llm.KindUnavailable, true, true},
			"fault 409: a b c":     {llm.KindUnavailable, true, true},
			"fault 408: a b c":     {llm.KindTimeout, true, false},
			"fault 429: a b c":     {llm.KindRateLimited, true, true},
			"fault 413: a b c":     {llm.KindInvalid, false, true},
			"fault quota: a b c":   {llm.KindQuota, false, true},
			"fault context: a b c": {llm.KindContextLength, false, true},
			"fault html: a b c":    {llm.KindBadResponse, false, false},
			"fault cut: a b c":     {llm.KindTruncated, true, false},
			"fault eof: a b c":     {llm.KindTruncated, true, false},
			"fault badjson: a b c": {llm.KindBadResponse, true, false},
			"fault event: a b c":   {llm.KindUnavailable, true, false},
			"fault cutcall: a":     {llm.KindTruncated, true, false},
		},
		answers: map[string]string{
			"openai_text":            `"Grüße aus 東京 🗼." end 12/9`,
			"openai_refusal":         `"I can't help with that." end 5/6`,
			"openai_tools":           `"" tool_calls 80/33 | call_A webSearch {"query":"tower height"} | call_B codeExecution {"code":"print(\"ü\")"}`,
			"openai_text_and_tools":  `"Let me look." tool_calls 8/3 | call_A webSearch {"query":"x"}`,
			"openai_length":          `"Once upon" length 5/2`,
			"openai_content_filter":  `"The" content_filter 5/1`,
			"bad_arguments":          `"" tool_calls 5/2 | call_A webSearch malformed {"query": "unclosed`,
			"bad_arguments_array":    `"" tool_calls 5/2 | call_A webSearch malformed ["x"]`,
			"no_arguments":           `"" tool_calls 5/2 | call_A now {}`,
			"no_done":                `"Fine" end 6/2 estimated`,
			"vllm_text_no_usage":     `"Hello there" end 6/4 estimated`,
			"vllm_reasoning":         `"\n\nHello" end 9/12`,
			"ollama_tools_one_index": `"" tool_calls 165/20 | call_x1 webSearch {"query":"a"} | call_x2 webSearch {"query":"b"}`,
			"repeated_name_no_id":    `"" tool_calls 6/6 estimated |  now {"zone":"UTC"}`,
			"crlf":                   `"One\r\ntwo" end 3/3`,
			"gateway_keepalive":      `"Fine." end 4/2`,
			"usage_every_chunk":      `"ab" end 7/2`,
			"other_choices":          `"yes" end 6/1 estimated`,
			"changing_ids":           `"one two" end 6/3 estimated`,
			"control_characters":     `"ab" end 6/1 estimated`,
			"negative_usage":         `"x" end 0/0`,
			"unexpected_types":       `"330 m" end 7/3`,
			"empty_answer":           `"" end 5/0`,
		},
		failures: map[string]failure{
			"openai_content_filter_empty.sse": {llm.KindFiltered, false},
			"openai_length_in_call.sse":       {llm.KindTruncated, false},
			"openai_error_event.sse":          {llm.KindUnavailable, true},
			"openai_rate_limit_event.sse":     {llm.KindRateLimited, true},
			"gateway_error_event.sse":         {llm.KindUnavailable, true},
			"cut_text.sse":                    {llm.KindTruncated, true},
			"cut_text_done.sse":               {llm.KindTruncated, true},
			"cut_call.sse":                    {llm.KindTruncated, true},
			"cut_call_valid_json.sse":         {llm.KindTruncated, true},
			"cut_before_blank.sse":            {llm.KindTruncated, true},
			"bad_chunk.sse":                   {llm.KindBadResponse, true},
			"no_name.sse":                     {llm.KindBadResponse, true},
			"error_400_context.json":          {llm.KindContextLength, false},
			"error_400_context_vllm.json":     {llm.KindContextLength, false},
			"error_400_context_llamacpp.json": {llm.KindContextLength, false},
			"error_400_schema.json":           {llm.KindInvalid, false},
			"error_401_key.json":              {llm.KindAuth, false},
			"error_403_region.json":           {llm.KindAuth, false},
			"error_404_model.json":            {llm.KindUnknownModel, false},
			"error_429_rate.json":             {llm.KindRateLimited, true},
			"error_429_quota.json":            {llm.KindQuota, false},
			"error_500.json":                  {llm.KindUnavailable, true},
			"error_502.html":                  {llm.KindUnavailable, true},
		},
	}
}

const thoughts = `{"model":"anthropic/claude-sonnet-5-5","blocks":[{"thinking":"The user wants the height.","signature":"EqoBCkgIARAB"},` +
	`{"redacted":"EmwKAhgB"}]}`

func overAnthropic() *protocol {
	return &protocol{
		name: "anthropic", model: "claude-sonnet-5-5", endpoint: "/v1/messages",
		make: func(cfg openai.Config) (llm.Provider, func(), error) {
			p, err := anthropic.New(cfg)
			return p, p.Close, err
		},
		stub: func() stub { return anthropicstub.New() },
		first: "event: content_block_start\n" +
			`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n",
		piece: "event: content_block_delta\n" +
			`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}` + "\n\n",
		last: "event: message_delta\n" +
			`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}` + "\n\n",
		alive: "event: ping\ndata: {\"type\":\"ping\"}\n\n",
		environment: map[string]string{
			"ANTHROPIC_API_KEY": "sk-environment", "ANTHROPIC_AUTH_TOKEN": "environment", "ANTHROPIC_BASE_URL": "http://127.0.0.1:1",
			"ANTHROPIC_CUSTOM_HEADERS": "X-Environment: yes", "ANTHROPIC_PROFILE": "absent",
		},
		headers: []string{"Authorization", "X-Api-Key", "X-Environment"},
		limited: []string{"error_429_rate.json", "error_529_overloaded.json"},
		schemas: []string{`[]`, `null`},
		faults: map[string]fault{
			"fault refuse: a b c":  {llm.KindUnavailable, true, false},
			"fault 500: a b c":     {llm.KindUnavailable, true, false},
			"fault 503: a b c":     {llm.KindUnavailable, true, true},
			"fault 529: a b c":     {llm.KindUnavailable, true, true},
			"fault 408: a b c":     {llm.KindTimeout, true, false},
			"fault 429: a b c":     {llm.KindRateLimited, true, true},
			"fault 413: a b c":     {llm.KindContextLength, false, true},
			"fault 422: a b c":     {llm.KindInvalid, false, true},
			"fault quota: a b c":   {llm.KindQuota, false, true},
			"fault context: a b c": {llm.KindContextLength, false, true},
			"fault html: a b c":    {llm.KindBadResponse, false, false},
			"fault cut: a b c":     {llm.KindTruncated, true, false},
			"fault eof: a b c":     {llm.KindTruncated, true, false},
			"fault badjson: a b c": {llm.KindBadResponse, true, false},
			"fault event: a b c":   {llm.KindUnavailable, true, false},
			"fault cutcall: a":     {llm.KindTruncated, true, false},
		},
		answers: map[string]string{
			"text":                `"Grüße aus 東京 🗼." end 12/9`,
			"tool":                `"Let me look." tool_calls 12/33 | toolu_01A webSearch {"query":"tower height"}`,
			"tools_parallel":      `"" tool_calls 12/40 | toolu_01A webSearch {"query":"a"} | toolu_01B codeExecution {"code":"print(\"ü\")"}`,
			"tools_interleaved":   `"" tool_calls 12/9 | toolu_01A webSearch {"query":"a"} | toolu_01B webSearch {"query":"b"}`,
			"tool_no_arguments":   `"" tool_calls 12/9 | toolu_01A now {}`,
			"tool_whole_input":    `"" tool_calls 12/9 | toolu_01A now {"zone":"UTC"}`,
			"bad_arguments":       `"" tool_calls 12/9 | toolu_01A webSearch malformed {"query": "unclosed`,
			"bad_arguments_array": `"" tool_calls 12/9 | toolu_01A webSearch malformed ["x"]`,
			"cache_usage":         `"Fine." end 2105/3`,
			"no_usage":            `"Hello there" end 6/4 estimated`,
			"negative_usage":      `"x" end 0/0`,
			"length":              `"Once upon" length 12/2`,
			"refusal":             `"Here is" content_filter 12/2`,
			"stop_sequence":       `"Once" end 12/9`,
			"window_filled":       `"Once" length 12/9`,
			"no_message_stop":     `"Fine" end 12/9`,
			"empty":               `"" end 12/0`,
			"control_characters":  `"ab" end 12/9`,
			"thinking":            `"" tool_calls 12/60 | toolu_01A webSearch {"query":"height"} | thinking ` + thoughts,
			"server_tool":         `"Found." end 12/9`,
			"unknown_event":       `"yes" end 12/9`,
			"crlf":                `"One\r\ntwo" end 12/9`,
		},
		failures: map[string]failure{
			"refusal_empty.sse":                {llm.KindFiltered, false},
			"pause_turn.sse":                   {llm.KindTruncated, true},
			"length_in_call.sse":               {llm.KindTruncated, false},
			"window_in_call.sse":               {llm.KindTruncated, false},
			"window_empty.sse":                 {llm.KindContextLength, false},
			"unknown_stop_in_call.sse":         {llm.KindBadResponse, true},
			"unended_call.sse":                 {llm.KindTruncated, true},
			"cut_text.sse":                     {llm.KindTruncated, true},
			"cut_text_stopped.sse":             {llm.KindTruncated, true},
			"cut_call.sse":                     {llm.KindTruncated, true},
			"cut_call_valid_json.sse":          {llm.KindTruncated, true},
			"cut_before_blank.sse":             {llm.KindTruncated, true},
			"stop_without_reason.sse":          {llm.KindTruncated, true},
			"bad_event.sse":                    {llm.KindBadResponse, true},
			"stray_delta.sse":                  {llm.KindBadResponse, true},
			"block_twice.sse":                  {llm.KindBadResponse, true},
			"no_name.sse":                      {llm.KindBadResponse, true},
			"event_overloaded.sse":             {llm.KindUnavailable, true},
			"event_overloaded_first.sse":       {llm.KindUnavailable, true},
			"event_rate_limit.sse":             {llm.KindRateLimited, true},
			"event_api_error.sse":              {llm.KindUnavailable, true},
			"event_invalid.sse":                {llm.KindInvalid, false},
			"event_timeout.sse":                {llm.KindTimeout, true},
			"event_no_json.sse":                {llm.KindUnavailable, true},
			"error_400_prompt.json":            {llm.KindContextLength, false},
			"error_400_prompt_and_answer.json": {llm.KindContextLength, false},
			"error_400_credit.json":            {llm.KindQuota, false},
			"error_400_limits.json":            {llm.KindQuota, false},
			"error_400_filter.json":            {llm.KindFiltered, false},
			"error_400_schema.json":            {llm.KindInvalid, false},
			"error_401_key.json":               {llm.KindAuth, false},
			"error_402_billing.json":           {llm.KindQuota, false},
			"error_403_permission.json":        {llm.KindAuth, false},
			"error_404_model.json":             {llm.KindUnknownModel, false},
			"error_413_large.html":             {llm.KindContextLength, false},
			"error_429_rate.json":              {llm.KindRateLimited, true},
			"error_500.json":                   {llm.KindUnavailable, true},
			"error_502.html":                   {llm.KindUnavailable, true},
			"error_504_timeout.json":           {llm.KindTimeout, true},
			"error_529_overloaded.json":        {llm.KindUnavailable, true},
		},
	}
}
