package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestBannedWordsAreFound checks which parts of a file are read as texts.
func TestBannedWordsAreFound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		file, content string
		want          []string // kind and line number of each banned word, as kind:line
	}{
		"document":              {"docs/a.md", "# A\n\nThe worker tells it.\n", []string{"document:3"}},
		"code of document":      {"docs/a.md", "Run it:\n\n```sh\necho told\n```\n\nUse `told`.\n", nil},
		"description":           {"ingress/internal/openapi/openapi.yaml", "a:\n  description: as it was told\n", []string{"document:2"}},
		"error":                 {"a/a.go", "package a\n\nvar err = errors.New(\"nobody answers\")\n", []string{"message:3"}},
		"one word":              {"a/a.go", "package a\n\nvar event = \"told\"\n", nil},
		"statement":             {"a/a.go", "package a\n\nvar q = `SELECT told FROM events`\n", nil},
		"error of a test":       {"a/a_test.go", "package a\n\nvar err = errors.New(\"nobody answers\")\n", nil},
		"comment":               {"a/a_test.go", "package a\n\n// first\n// is done anew\n", []string{"comment:4"}},
		"identifier":            {"a/a.go", "package a\n\nvar told = 1\n", nil},
		"interface string":      {"ingress/web/a.ts", "const a = \"It was mended.\"; // fine\n", []string{"interface string:1"}},
		"text of a page":        {"ingress/web/a.tsx", "return (\n  <p>All but for one</p>\n)\n", []string{"interface string:2"}},
		"script comment":        {"ingress/web/a.ts", "// whoever calls\nconst a = 1\n", []string{"comment:1"}},
		"SQL":                   {"migrations/a.sql", "SELECT 1; -- so long\n", []string{"comment:1"}},
		"shell":                 {"scripts/a.sh", "# done\n# for want of time\ntrue\n", []string{"comment:2"}},
		"shell message":         {"scripts/a.sh", "echo \"all but for one\"\n", []string{"message:1"}},
		"setup message":         {"scripts/setup", "true\necho 'nobody answers'\n", []string{"message:2"}},
		"alert":                 {"deploy/grafana/alerts.yaml", "a:\n  description: \"the hook was told\"\n", []string{"message:2"}},
		"raised message":        {"migrations/a.sql", "RAISE EXCEPTION 'the run was told' USING ERRCODE = '23B01';\nSELECT 'was told so';\n", []string{"message:1"}},
		"Python docstring":      {"sdk/python/a.py", "def a():\n    \"\"\"Does it.\n\n    It is done anew.\n    \"\"\"\n", []string{"message:4"}},
		"Python error":          {"sdk/python/a.py", "raise ValueError('nobody answers')\n", []string{"message:1"}},
		"Python test":           {"sdk/python/test_a.py", "a = 'nobody answers'\n", nil},
		"description's subject": {"ingress/internal/openapi/openapi.yaml", "a:\n  description: What started the run.\n", []string{"document:2"}},
		"subject":               {"docs/a.md", "What the worker has stored is kept.\n", []string{"document:1"}},
		"question":              {"docs/a.md", "# What is Parley?\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			texts, err := read(test.file, test.content)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, x := range texts {
				for _, line := range check(x) {
					got = append(got, string(x.kind)+":"+strings.Split(line, ":")[1])
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("found %q, want %q", got, test.want)
			}
		})
	}
}

// TestReport checks that a banned word makes the check fail in a document, an error or a user
// interface string. Comments may contain a few.
func TestReport(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		full := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "git", "-C", root, "add", ".").CombinedOutput(); err != nil {
			t.Fatalf("git add: %v\n%s", err, out)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q", root).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	clean := func() bool {
		t.Helper()
		texts, err := collect(root)
		if err != nil {
			t.Fatal(err)
		}
		return report(t.Output(), texts)
	}

	write("a.go", "package a\n\n"+strings.Repeat("// said anew\n\n", maxInComments))
	if !clean() {
		t.Errorf("report fails with %d banned words in comments", maxInComments)
	}
	write("b.go", "package a\n\n// said anew\n")
	if clean() {
		t.Errorf("report passes with %d banned words in comments", maxInComments+1)
	}
	write("b.go", "package a\n")
	for name, content := range map[string]string{
		"README.md":           "It is mended.\n",
		"error.go":            "package a\n\nvar err = errors.New(\"it is mended\")\n",
		"ingress/web/a.tsx":   "const a = <p>It is mended.</p>\n",
		"ingress/web/p.html":  "<p>It is mended.</p>\n",
		"docs/sub/page-2.md":  "It is mended.\n",
		"deploy/a/message.go": "package a\n\nvar text = `It is mended.`\n",
	} {
		write(name, content)
		if clean() {
			t.Errorf("report passes with a banned word in %s", name)
		}
		write(name, strings.ReplaceAll(content, "mended", "fixed"))
	}
}
