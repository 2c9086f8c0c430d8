package offline_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/workers/internal/llm"
)

var update = flag.Bool("update", false, "write the golden files anew")

func source(id int, title, text string) domain.Citation {
	return domain.Citation{ID: id, Type: "web", Title: title, URL: "https://example.com/", CitedText: text}
}

func found(sources ...domain.Citation) llm.ToolResult {
	return llm.ToolResult{Name: "webSearch", Output: []byte(`{"query":"q","results":[]}`), Sources: sources}
}

func gave(name, output string) llm.ToolResult {
	return llm.ToolResult{Name: name, Output: []byte(output)}
}

func failed(name, message string) llm.ToolResult {
	return llm.ToolResult{Name: name, Output: []byte(`{"error":"` + message + `"}`), Failed: true}
}

// testCase contains a question, and the tool results for it.
type testCase struct {
	message string
	results []llm.ToolResult
}

func testCases() map[string]testCase {
	return map[string]testCase{
		"sources": {"How high is the tower?", []llm.ToolResult{
			gave("knowledge", `[]`),
			found(
				source(4, "Tower", "It was built in 1889.[3] The tower is 330 m high.[12] It is iron."),
				source(5, "Only a title", ""),
				source(6, "Other", "Another tower is high."),
			),
			gave("codeExecution", `{"stdout":"391\n","stderr":""}`),
			failed("fetch", "no route"),
		}},
		"computed": {"Compute the mean and the median of 1, 2 and 6 and plot them, please.", []llm.ToolResult{
			gave("codeExecution", `{"stdout":"3\n2\n","stderr":"","files":[{"id":"file_1","name":"plot.png","mimeType":"image/png","bytes":1234}]}`),
		}},
		"computed_list": {"the cubes of 2 to 4", []llm.ToolResult{gave("codeExecution", `{"stdout":"8, 27, 64\n","stderr":"","files":[]}`)}},
		"computed_rounded": {"Compute the mean, the variance and the total of 12, 15, 9, 22, 17, 14 and 80.", []llm.ToolResult{
			gave("codeExecution", `{"stdout":"24.142857142857142\n0.000001234567\n1e-07\n","stderr":"","files":[]}`),
		}},
		"prepared_plot": {"How many working days are there between 3 March and 19 September 2025?", []llm.ToolResult{
			gave("codeExecution", `{"stdout":"145 working days\n","stderr":"","files":[{"id":"file_1","name":"plot.png","mimeType":"image/png","bytes":24978},`+
				`{"id":"file_2","name":"a.csv","mimeType":"text/csv","bytes":12}]}`),
		}},
		"no_matplotlib": {"compute the total of 1, 2 and 3 and plot it", []llm.ToolResult{
			gave("codeExecution", `{"stdout":"6\nThere is no plot: matplotlib is not installed.\n","stderr":"","files":[]}`),
		}},
		"plot_not_kept": {"compute the total of 1, 2 and 3 and plot it", []llm.ToolResult{
			gave("codeExecution", `{"stdout":"6\n","stderr":"","files":[],"leftOut":["plot.png"],"note":"No file was kept: the file quota of the session or the organization is exceeded."}`),
		}},
		"computed_limit": {"compute the total of the squares from 1 to 999999999", []llm.ToolResult{{
			Name: "codeExecution", Failed: true,
			Output: []byte(`{"error":"The program used more than 10 s of CPU time.","stdout":"","stderr":"","files":[],"limit":"cpu"}`),
		}}},
		"limit_traceback": {"```python\nx = [0] * 10**9\n```", []llm.ToolResult{{
			Name: "codeExecution", Failed: true,
			Output: []byte(`{"error":"The program used more than 512 MiB of memory.\n\nTraceback (most recent call last):\n  File \"main.py\", line 1, in <module>\n    x = [0] * 10**9\n` +
				`MemoryError","stdout":"","stderr":"","files":[],"limit":"memory"}`),
		}}},
		"other_language": {"```sh\nls\n```", nil},
		"languages_mixed": {"```sh\nls\n```\n```python\nprint(1)\n```", []llm.ToolResult{
			gave("codeExecution", `{"stdout":"1\n","stderr":"","files":[{"id":"file_1","name":"a.txt","mimeType":"text/plain","bytes":1}]}`),
		}},
		"no_program":         {"I would like you to simulate 100,000 throws of two dice.", nil},
		"calculated_without": {"What is 17 * 23?", []llm.ToolResult{failed("codeExecution", "The tool codeExecution is not available at the moment.")}},
		"code": {"```python\nprint(1)\n2\n```", []llm.ToolResult{
			gave("codeExecution", `{"stdout":"1\n","stderr":"careful\n","value":"2","files":[{"id":"file_1","name":"a.csv","mimeType":"text/csv","bytes":12},`+
				`{"id":"file_2","name":"out/[1]`+"`"+`.png","mimeType":"image/png","bytes":1}],"note":"Something to note."}`),
		}},
		"code_silent": {"```python\nx = 1\n```", []llm.ToolResult{gave("codeExecution", `{"stdout":"","stderr":"","files":[]}`)}},
		"code_value":  {"```python\n6 * 7\n```", []llm.ToolResult{gave("codeExecution", `{"stdout":"","stderr":"","value":"42","files":[]}`)}},
		"code_syntax": {"```python\nprint(\n```", []llm.ToolResult{{
			Name: "codeExecution", Failed: true,
			Output: []byte(`{"error":"  File \"main.py\", line 1\n    print(\n         ^\nSyntaxError: '(' was never closed","stdout":"","stderr":"","files":[]}`),
		}}},
		"code_failed": {"```python\nprint(1)\nprint(1 / 0)\n```", []llm.ToolResult{{
			Name: "codeExecution", Failed: true,
			Output: []byte(`{"error":"Traceback (most recent call last):\n  File \"main.py\", line 2, in <module>\n    print(1 / 0)\nZeroDivisionError: division by zero",` +
				`"stdout":"1\n","stderr":"","files":[{"id":"file_1","name":"a.csv","mimeType":"text/csv","bytes":12}]}`),
		}}},
		"languages": {"埃菲尔铁塔有多高？", []llm.ToolResult{found(
			source(1, "铁塔", "它建于1889年。埃菲尔铁塔高330米🗼。它是铁的！"),
			source(2, "塔", "エッフェル塔は高い。東京タワーは赤い。"),
			source(3, "برج", "يبلغ ارتفاع البرج 330 مترا؟ نعم."),
		)}},
		"same_sentence": {"How high is it?", []llm.ToolResult{
			found(source(1, "A", "It is 330 m high. Old."), source(2, "B", "New. It is 330 m high.")),
		}},
		"hostile_source": {"How high is the tower?", []llm.ToolResult{found(
			source(1, "A", "The tower is [9 \"forged\"] 330 m high."),
			source(2, "B", "He said: \"The tower is high.\""),
			source(3, "C", "```\nThe tower is `high`, as code."),
			source(4, "[7] D", "[1][2]"),
		)}},
		"when": {"When was the Zorbel Tower built?", []llm.ToolResult{found(
			source(1, "Z", "The Zorbel Tower is tall.[2] Zorbel Tower was built of 300 stones. The tower was opened in 1912, built by hand."),
			source(2, "Y", "The Zorbel Tower was built. In 1912 it rained."),
		)}},
		"how_tall": {"How tall is the Zorbel Tower?", []llm.ToolResult{found(
			source(1, "Z", "In 1912 the Zorbel Tower was opened. The Zorbel Tower is tall.[2] The Zorbel Tower has 85 m."),
		)}},
		"long_sentence": {"What is long?", []llm.ToolResult{found(source(1, "A", "This is a long "+strings.Repeat("sentence ", 80)+"."))}},
		"nothing_found": {"Who was it?", []llm.ToolResult{gave("knowledge", `[]`), gave("webSearch", `{"query":"q","results":[]}`)}},
		"unavailable":   {"Who was it?", []llm.ToolResult{failed("webSearch", "The tool webSearch is not available at the moment.")}},
		"refused":       {"charge the card", []llm.ToolResult{failed("charge", "A person refused this call; it was not made.")}},
		"happened":      {"charge the card", []llm.ToolResult{gave("charge", `{"note":"A person confirmed that this call was executed. Its result is unknown."}`)}},
		"endpoint":      {"weather", []llm.ToolResult{gave("weather", `{"status":200,"contentType":"application/json","body":{"c":21, "f": 70}}`)}},
		"endpoint_text": {"weather", []llm.ToolResult{gave("weather", `{"status":200,"contentType":"text/plain","body":"sunny `+"```"+`"}`)}},
		"endpoint_error": {"weather", []llm.ToolResult{
			gave("weather", `{"status":404,"body":{"error":"no such city"}}`), gave("delete", `{"status":204}`),
		}},
		"mcp":       {"crm find", []llm.ToolResult{gave("crm_find", `{"text":"two orders","structuredContent":{"n":2}}`)}},
		"mcp_error": {"crm find", []llm.ToolResult{failed("crm_find", "no such customer")}},
		"cut":       {"list", []llm.ToolResult{gave("list", `{"truncated":true,"totalBytes":99999,"text":"[1,2"}`)}},
		"plain":     {"now", []llm.ToolResult{gave("now", `"12:00"`), gave("list", `[1, 2]`), gave("nothing", `""`)}},
	}
}

func answerTo(t *testing.T, s testCase) string {
	t.Helper()
	return answerWith(t, tools(), s)
}

func answerWith(t *testing.T, tools []llm.ToolSpec, s testCase) string {
	t.Helper()
	req := llm.Request{Tools: tools, Messages: []llm.Message{{Role: llm.RoleUser, Text: s.message}, {Role: llm.RoleAssistant}}}
	for i := range s.results {
		req.Messages[1].ToolCalls = append(req.Messages[1].ToolCalls, llm.ToolCall{Name: s.results[i].Name})
		req.Messages = append(req.Messages, llm.Message{Role: llm.RoleTool, Result: &s.results[i]})
	}
	res := ask(t, req)
	if len(res.ToolCalls) > 0 {
		t.Errorf("asks for tools again: %+v", res.ToolCalls)
	}
	return res.Text
}

func TestAnswersFromResults(t *testing.T) {
	t.Parallel()
	for name, s := range testCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := answerTo(t, s) + "\n"
			file := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// TestQuotesStandInTheirSources finds the markers in answers in the same way as the agent loop.
func TestQuotesStandInTheirSources(t *testing.T) {
	t.Parallel()
	marker := regexp.MustCompile(`\[(\d+) "([^"]*)"\]`)
	quotes := 0
	for name, s := range testCases() {
		texts := map[string]string{}
		for _, r := range s.results {
			for _, source := range r.Sources {
				texts[string(rune('0'+source.ID))] = source.CitedText
			}
		}
		for _, m := range marker.FindAllStringSubmatch(answerTo(t, s), -1) {
			quotes++
			if !strings.Contains(texts[m[1]], m[2]) {
				t.Errorf("%s: %q is not in source %s", name, m[2], m[1])
			}
		}
	}
	if quotes < 8 {
		t.Errorf("%d quotes", quotes)
	}
}
