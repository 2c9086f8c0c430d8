package offline_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/workers/internal/llm"
)

// program returns the program that the model requests for a message, or else the model's answer.
func program(t *testing.T, message string) string {
	t.Helper()
	tools := []llm.ToolSpec{{Name: "codeExecution", Schema: json.RawMessage(`{"properties":{"code":{"type":"string"}},"required":["code"]}`)}}
	res := ask(t, llm.Request{Tools: tools}, message)
	if len(res.ToolCalls) != 1 {
		return res.Text
	}
	var args struct {
		Code string `json:"code"`
	}
	if err := json.Unmarshal(res.ToolCalls[0].Arguments, &args); err != nil || res.Text != "" || !strings.HasSuffix(args.Code, "\n") {
		t.Errorf("%s: %+v, %v", message, res, err)
	}
	return args.Code
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for _, message := range []string{
		"What is 17 * 23?",
		"Compute 2**10, please",
		"Compute the squares of 1 to 10 and plot it",
		"Compute the sum of the squares from 1 to 10 and plot it.",
		"Can you compute the average of 4, 8, 15, 16, 23 and 42 and plot the values?",
		"What is the mean, the median and standard deviation of 1, 2, 3, 4?",
		"the product of the numbers from -3 to 03",
		"plot 3, 5, 7",
		"What are mean, median and standard deviation of 12, 15, 9, 22, 17, 14, 80?",
		"I repay a loan of 18,000 at 4.2 % over 48 months. What is the monthly payment, and what does the loan cost in total?",
		"How many working days are there between 3 March and 19 September 2025?",
		"Simulate 100,000 throws of two dice. How often is the sum at least 10?",
		"Simulate 100,000 throws of two dice.",
		"Run these:\n```python\nx = 6\n```\nand then\n```py title=\"second\"\nprint(x)```\n```\nprint(x * 7)\n```\n",
		"Run this:\n```js\nconsole.log(1)\n```",
		"Run these:\n```bash\nls\n```\n```Python\nprint(1)\n```\n```c++\nint x;\n```",
	} {
		all.WriteString("# " + message + "\n" + program(t, message) + "\n")
	}
	file := filepath.Join("testdata", "programs.golden")
	if *update {
		if err := os.WriteFile(file, []byte(all.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if all.String() != string(want) {
		t.Errorf("got:\n%s\nwant:\n%s", &all, want)
	}
}

// TestNothingIsComputedThatIsNotSaid uses ambiguous messages that look like computations. The model
// must not compute anything.
func TestNothingIsComputedThatIsNotSaid(t *testing.T) {
	t.Parallel()
	for _, message := range []string{
		"compute it and plot it", "plot the sales of 2024", "What is the mean height of the tower?", "find the average", "sum of 7", "list 3, 5", "e", "what is pi?",
		"the sum of squares below 100", "the powers of two up to 10", "the Fibonacci numbers from 3 to 9", "compute the mean of 3, 5 and the rest", "compute the mean of 3, 5 and plot the primes",
		"plot x^2 from here to there", "plot f(x) from 0 to 1", "plot x from 0 to x", "plot sin x from 0 to 1", "plot x.real from 0 to 1", "plot __import__(x) from 0 to 1",
		"the sum of 1,000 and 2,000", "the mean of 1,2,3", "the squares of 1 to 10 and more", "compute the mean", "the standard of 3, 4", "plot sin(x) from 0 to 10",
		"the sum of 1; import os", "the first 0 primes", "the first many primes", "the first -3 primes", "compute 5 and 6", "mean: 3, 4, 5", "the mean of 1/2, 3",
		"plot 3x2 from 0 to 1", "plot ((x from 0 to 1", "plot 1..2x from 0 to 1", "between 3 to 4", "sum of between 3 to 4",
		"the mean of " + strings.Repeat("1, ", 1000) + "1", "plot " + strings.Repeat("(", 100) + "x" + strings.Repeat(")", 100) + " from 0 to 1",
	} {
		if got := program(t, message); strings.Contains(got, "print(") {
			t.Errorf("%.60s: %s", message, got)
		}
	}
}

// TestAnotherToolComputes checks that a message that names another tool leads only to a call of
// that tool. Without codeExecution, the model gives the same answer.
func TestAnotherToolComputes(t *testing.T) {
	t.Parallel()
	if got := asked(t, tools(), "sum of a: 3 and b: 4"); got != `sum {"a":3,"b":4}` {
		t.Error(got)
	}
	if got := asked(t, shop(), "What is the sum of the primes below 10?"); got != `webSearch {"query":"What is the sum of the primes below 10?"}` {
		t.Error(got)
	}
}

func TestFilesOfABlock(t *testing.T) {
	t.Parallel()
	const schema = `{"properties":{"code":{"type":"string"},"files":{"type":"array","items":{"type":"string"}}},"required":["code"]}`
	takes := []llm.ToolSpec{{Name: "codeExecution", Schema: json.RawMessage(schema)}}
	const block = "\n```python\n# files: no.csv\nprint(1)\n```\n"
	for message, want := range map[string]string{
		"Run this with files: a.csv, b.csv" + block:                                                    `["a.csv","b.csv"]`,
		"files: a.csv and `my data.csv`." + block:                                                      `["a.csv","my data.csv"]`,
		block + "files: [\"a.csv\", \"file_01h2xcejqtf2nbrexx3vqjhp41\"]":                              `["a.csv","file_01h2xcejqtf2nbrexx3vqjhp41"]`,
		"Files = [a.csv, README]" + block:                                                              `["a.csv","README"]`,
		`{"files": ["a.csv"]}` + block:                                                                 `["a.csv"]`,
		"file: data.tar.gz" + block + "file: data.tar.gz, my data.csv now":                             `["data.tar.gz","my data.csv"]`,
		"files: a.csv and run this" + block:                                                            `["a.csv"]`,
		"My files: are they there?" + block:                                                            ``,
		"profile: a.csv" + block:                                                                       ``,
		"Run this" + block:                                                                             ``,
		"Run this code with doc_01h2xcejqtf2nbrexx3vqjhp41." + block:                                   `["doc_01h2xcejqtf2nbrexx3vqjhp41"]`,
		"files: doc_01h2xcejqtf2nbrexx3vqjhp41, a.csv" + block + "Yes, doc_01h2xcejqtf2nbrexx3vqjhp41": `["doc_01h2xcejqtf2nbrexx3vqjhp41","a.csv"]`,
		"With doc_01h2xcejqtf2nbrexx3vqjhp41 and doc_01h2xcejqtf2nbrexx3vqjhp42 run this, not my_doc_ or doc_short" + block: `["doc_01h2xcejqtf2nbrexx3vqjhp41","doc_01h2xcejqtf2nbrexx3vqjhp42"]`,
		"Run it\n```python\nprint('doc_01h2xcejqtf2nbrexx3vqjhp41')\n```":                                                   ``,
		"files: a.csv. What is 17 * 23?": ``,
	} {
		res := ask(t, llm.Request{Tools: takes}, message)
		if len(res.ToolCalls) != 1 {
			t.Errorf("%s: %+v", message, res)
			continue
		}
		var args struct {
			Files json.RawMessage `json:"files"`
		}
		if err := json.Unmarshal(res.ToolCalls[0].Arguments, &args); err != nil || string(args.Files) != want {
			t.Errorf("%s: %s, %v", message, args.Files, err)
		}
	}
	if got := asked(t, tools(), "files: a.csv"+block); got != `codeExecution {"code":"# files: no.csv\nprint(1)\n"}` {
		t.Errorf("a tool that takes no files: %s", got)
	}
}

// TestBlocksOfOtherLanguages checks that code blocks in other languages are not executed. Another
// tool may still receive them.
func TestBlocksOfOtherLanguages(t *testing.T) {
	t.Parallel()
	if got := asked(t, tools(), "crm_findOrder\n```json\n{\"id\": 7}\n```"); got != `crm_findOrder {"id":7}` {
		t.Error(got)
	}
	if got := asked(t, shop(), "What does this do?\n```js\nf()\n```"); strings.Contains(got, "not run") {
		t.Errorf("where nothing is run: %s", got)
	}
}
