package tool_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"parley/workers/internal/tool"
)

type named string

func (n named) Spec() tool.Spec { return tool.Spec{Name: string(n)} }

func (n named) Call(context.Context, tool.Call) (tool.Result, error) { return tool.Result{}, nil }

func TestRegistryOrdersByName(t *testing.T) {
	t.Parallel()
	r, err := tool.NewRegistry(named("webSearch"), named("codeExecution"), named("Knowledge"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range r.Specs() {
		names = append(names, s.Name)
	}
	if got := strings.Join(names, " "); got != "Knowledge codeExecution webSearch" {
		t.Errorf("got %s", got)
	}
	if got, ok := r.Lookup("webSearch"); !ok || got != named("webSearch") {
		t.Errorf("got %v, %v", got, ok)
	}
	if _, ok := r.Lookup("websearch"); ok {
		t.Error("names match by exact case")
	}
}

func TestRegistryRefusesNames(t *testing.T) {
	t.Parallel()
	for _, tools := range [][]tool.Tool{
		{named("")}, {named("two words")}, {named("dotted.name")}, {named(strings.Repeat("x", 65))}, {named("a"), named("a")},
	} {
		if _, err := tool.NewRegistry(tools...); err == nil {
			t.Errorf("%v was accepted", tools)
		}
	}
}

func TestNilRegistryIsEmpty(t *testing.T) {
	t.Parallel()
	var r *tool.Registry
	if _, ok := r.Lookup("a"); ok || len(r.Specs()) > 0 {
		t.Error("a nil registry has tools")
	}
}

func TestErrorShowsItsMessageOnly(t *testing.T) {
	t.Parallel()
	cause := errors.New("dial 10.0.0.1")
	err := error(&tool.Error{Message: "The page could not be fetched.", Err: cause})
	if err.Error() != "The page could not be fetched." || !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
}
