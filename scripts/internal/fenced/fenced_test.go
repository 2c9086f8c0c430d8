package fenced

import (
	"fmt"
	"testing"
)

func TestRead(t *testing.T) {
	t.Parallel()
	got, err := Read("x.md", "a\n```sh\necho 1\n```\n\n- b\n\n  ````js\n  // a.mjs\n  ```\n  x\n  ````\n")
	want := []Block{
		{"x.md", 2, "sh", "", "echo 1\n"},
		{"x.md", 8, "js", "a.mjs", "// a.mjs\n```\nx\n"},
	}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) || len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%+v, %v", got, err)
	}

	for name, text := range map[string]string{
		"open": "```sh\necho", "tildes": "~~~sh\necho\n~~~", "quoted": "> ```sh\n> echo\n> ```", "indented": "So:\n\n    echo\n",
	} {
		if _, err := Read("x.md", text); err == nil {
			t.Errorf("%s: Read returned no error", name)
		}
	}

	if _, err := Read("x.md", "- item\n\n    its text\n\nend\n"); err != nil {
		t.Error(err)
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"model: offline\n  parley reset\n": "  parley ", "$ x\n": "$ ", "curl -N x": "curl ", "go run .": "go run ",
		"GET /x\nparley: offline\n": "", "a curl -N x": "", "go home": "", "": "",
	} {
		if got := Command(text); got != want {
			t.Errorf("Command(%q) = %q, want %q", text, got, want)
		}
	}
}
