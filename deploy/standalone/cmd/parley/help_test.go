package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"parley/deploy/standalone/internal/cli"
)

var update = flag.Bool("update", false, "rewrite the pages of testdata/help")

// pages returns the texts of the help by name: the overview of the program, its manual page, and
// the manual page of each command.
func pages(k *kong.Kong) map[string]string {
	all := map[string]string{"overview": cli.Overview(k.Model), "parley": cli.Page(k.Model.Node)}
	var add func(node *kong.Node, name string)
	add = func(node *kong.Node, name string) {
		for _, child := range node.Children {
			if !child.Hidden {
				all[name+child.Name] = cli.Page(child)
				add(child, name+child.Name+"-")
			}
		}
	}
	add(k.Model.Node, "")
	return all
}

// TestPages compares each page of the help with its golden file. `go test ./cmd/parley -update`
// updates the golden files.
func TestPages(t *testing.T) {
	t.Parallel()
	all := pages(newParser(new(commands)))
	for name, page := range all {
		path := filepath.Join("testdata", "help", name+".txt")
		if *update {
			if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || page != string(want) {
			t.Errorf("%s differs from the page of %s (update it with go test ./cmd/parley -update): %v\n%s", path, name, err, page)
		}
		for n, line := range strings.Split(page, "\n") {
			if utf8.RuneCountInString(line) > 80 || strings.TrimRight(line, " ") != line {
				t.Errorf("%s, line %d is longer than 80 characters or ends in spaces: %q", name, n+1, line)
			}
		}
		if name == "overview" {
			continue
		}
		for _, section := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS"} {
			if !strings.Contains("\n"+page, "\n"+section+"\n    ") {
				t.Errorf("the page of %s has no section %s", name, section)
			}
		}
	}

	files, err := filepath.Glob("testdata/help/*.txt")
	if err != nil || len(files) != len(all) {
		t.Errorf("testdata/help has %d pages, want %d: %v", len(files), len(all), err)
	}
}

// TestEveryCommandHasExamples checks that every command except prove has examples, and that the
// flags of these commands have help texts.
func TestEveryCommandHasExamples(t *testing.T) {
	t.Parallel()
	for _, node := range newParser(new(commands)).Model.Leaves(true) {
		shows, is := reflect.TypeAssert[interface{ Examples() string }](node.Target.Addr())
		if !is {
			if node.Name != "prove" {
				t.Errorf("%s has no examples", node.Name)
			}
			continue
		}
		if name, _, _ := strings.Cut(strings.TrimSpace(node.Path()), " ("); !strings.Contains(shows.Examples(), "parley "+name) { // the path ends with the aliases
			t.Errorf("the examples of %s do not call it", node.Path())
		}
		for _, f := range node.Flags {
			if f.Help == "" && f.Name != "help" {
				t.Errorf("%s: --%s has no help", node.Path(), f.Name)
			}
		}
	}
}

// TestThreeWaysToAskForHelp checks that the flags -h and --help and the command `parley help` print
// the same page.
func TestThreeWaysToAskForHelp(t *testing.T) {
	t.Parallel()
	want := pages(newParser(new(commands)))["keys-create"]
	for _, args := range [][]string{{"keys", "create", "-h"}, {"keys", "create", "--help"}, {"help", "keys", "create"}} {
		var out bytes.Buffer
		exited := false
		k := newParser(new(commands), kong.Writers(&out, &out), kong.Exit(func(code int) { exited = code == 0 }))
		chosen, err := k.Parse(args)
		if args[0] == "help" {
			if err == nil {
				err = chosen.Run()
			}
			if err != nil {
				t.Fatal(err)
			}
		} else if !exited {
			t.Errorf("%v: exit status is not 0", args)
		}
		if out.String() != want {
			t.Errorf("%v:\n%s", args, out.String())
		}
	}

	chosen, err := newParser(new(commands)).Parse([]string{"help", "nothing"})
	if err != nil {
		t.Fatal(err)
	}
	if err := chosen.Run(); cli.Code(t.Context(), err) != cli.ExitArguments {
		t.Errorf("help for an unknown command: error = %v", err)
	}
}
