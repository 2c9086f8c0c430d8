package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"parley/shared/testkit"
)

// TestTextsStandInTables checks that all texts of the widget, the dashboard and their shared
// modules are in tables. A translation of the tables is then complete.
func TestTextsStandInTables(t *testing.T) {
	t.Parallel()
	found, err := strays(t.Context(), testkit.Root(t), complete)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range found {
		t.Errorf("%s: %q stands outside a table of texts (texts.ts)", s.file, s.text)
	}
}

// TestTextsAreUsed checks that each text in the tables is used by a module of the dashboard.
func TestTextsAreUsed(t *testing.T) {
	t.Parallel()
	dashboard := filepath.Join(testkit.Root(t), "ingress", "web", "dashboard")
	modules := readModules(t, dashboard)
	tables, err := filepath.Glob(filepath.Join(dashboard, "texts", "*.ts*"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("no tables: %v", err)
	}

	entry := regexp.MustCompile(`(?m)^  (\w+) = "|^export const (\w+) = \(`)
	for _, file := range tables {
		area := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".tsx"), ".ts")
		if area == "plural" {
			continue
		}
		used := ""
		for _, module := range modules {
			if strings.Contains(module, "texts/"+area+`"`) {
				used += module
			}
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range entry.FindAllStringSubmatch(string(content), -1) {
			name := found[1] + found[2]
			if !regexp.MustCompile(`\b(Words|texts|table)\.` + name + `\b`).MatchString(used) {
				t.Errorf("no module uses %s of %s", name, filepath.Base(file))
			}
		}
	}
}

// readModules returns the content of all TypeScript modules below a folder.
func readModules(t *testing.T, folder string) []string {
	t.Helper()
	var modules []string
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !code.MatchString(name) {
			return err
		}
		content, err := os.ReadFile(name)
		modules = append(modules, string(content))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return modules
}

// TestStraysAreFound checks which strings of a module count as texts.
func TestStraysAreFound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		module string
		want   []string
	}{
		"sentence":           {`export const a = "Send it again";`, []string{"Send it again"}},
		"word":               {`export const a = { b: "Send" };`, []string{"Send"}},
		"name":               {`export const a = ["localStorage", "run.failed", "button", "Enter"];`, nil},
		"template":           {"export const a = (n: number): string => `page ${n}`;", []string{"page " + gap}},
		"nested template":    {"export const a = (n: number) => `${n > 0 ? `, ${n} new` : ''}x`;", []string{", " + gap + " new"}},
		"child":              {`export const a = h("p", null, "done");`, []string{"done"}},
		"tag and class":      {`export const a = h("p", { class: "entry agent" }, h("span"));`, nil},
		"attribute":          {`export const a = h("p", { class: "a b", "aria-label": "table" });`, []string{"table"}},
		"chosen attribute":   {`export const a = (b: boolean) => h("p", { "aria-label": b ? "open" : "shut" });`, []string{"open", "shut"}},
		"JSX":                {`export const a = <p class="quiet small">none <b title="now">yet</b></p>;`, []string{"none ", "now", "yet"}},
		"comparison":         {`export const a = <p>{b === "none at all" ? c : "Never" === d}</p>;`, nil},
		"console":            {"console.warn(`agent-chat: ${n > 1 ? 'all of them' : 'one of them'} failed`);", nil},
		"after an if":        {`if (b) say("Not now"); console.warn("not now");`, []string{"Not now"}},
		"comment":            {"// a comment, Say\nexport const a = /* Or this one */ 1;", nil},
		"regular expression": {`export const a = /"an odd/.test(b) ? c / 2 : d / "xx yy".length;`, []string{"xx yy"}},
		"type":               {`export interface A { kind: "Some text"; }`, nil},
		"path of an icon":    {`export const icons = { send: "M12 19V5M6 11l6-6 6 6" };`, nil},
		"property":           {`export const a = { question: "sure?" };`, []string{"sure?"}},
		"message":            {`toast("saved"); failed(b ? "lost" : c);`, []string{"saved", "lost"}},
		"noun":               {`export const a = many(b, "page");`, []string{"page"}},
		"code in a sentence": {`export const a = <p>Set <code>the key</code> first</p>;`, []string{"Set ", " first"}},
		"command":            {"export const a = `curl -sS ${b} -H 'x-api-key: the key'`;", nil},
		"address":            {`export const a = <input placeholder="https://example.com/parley" />;`, nil},
		"media query":        {`export const a = "(min-width: 120rem)";`, nil},
		"media queries":      {`export const a = "(min-width: 120rem) and (max-width: 0px), all";`, nil},
		"folder of tables":   {`import * as texts from "./texts/a"; export const b = texts.c;`, nil},
		"printed attribute":  {`export const a = <td data-label="cost" data-kind="the last cost">{b}</td>;`, []string{"cost"}},
		"header":             {"export const a = { Authorization: `Bearer ${b}` };", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			web := filepath.Join(root, "ingress", "web", "widget")
			if err := os.MkdirAll(filepath.Join(web, "texts"), 0o750); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(testkit.Root(t), "bin"), filepath.Join(root, "bin")); err != nil {
				t.Fatal(err)
			}
			const inTable = `export const c = "In the table";`
			const style = `td[data-label]::before { content: attr(data-label) ": " } b { justify-content: center; content: "Now" }`
			for file, content := range map[string]string{"a.tsx": test.module, "texts.ts": inTable, "texts/a.ts": inTable, "style.css": style} {
				if err := os.WriteFile(filepath.Join(web, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}

			found, err := strays(t.Context(), root, []string{"widget"})
			if err != nil {
				t.Fatal(err)
			}
			got := []string{}
			for _, s := range found {
				got = append(got, s.text)
			}
			if len(got) == 0 || got[0] != "Now" {
				t.Fatalf("found %q, want the text of the style sheet first", got)
			}
			got = got[1:]
			if !slices.Equal(got, test.want) {
				t.Errorf("found %q, want %q", got, test.want)
			}
		})
	}
}

// TestStylesAreRead checks which attributes and texts a style sheet prints.
func TestStylesAreRead(t *testing.T) {
	t.Parallel()
	for style, want := range map[string][2][]string{
		`p::after { content: "New"; color: red }`:                        {nil, {"New"}},
		`p::after{content:'not yet'}`:                                    {nil, {"not yet"}},
		`p::after { content: attr(data-a) " of " attr( title ) "\201C"}`: {{"data-a", "title"}, {" of "}},
		`p { font-family: "Some Font"; justify-content: end }`:           {nil, nil},
		`p::before { content: ""; width: attr(data-w px) }`:              {nil, nil},
	} {
		attributes, texts := printedBy(style)
		if !slices.Equal(attributes, want[0]) || !slices.Equal(texts, want[1]) {
			t.Errorf("%s: attributes = %q, texts = %q, want %q", style, attributes, texts, want)
		}
	}
}
