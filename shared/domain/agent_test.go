package domain_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"parley/shared/domain"
)

func TestToolNames(t *testing.T) {
	t.Parallel()
	var names []string
	for field := range reflect.TypeFor[domain.Tools]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	if !slices.Equal(names, domain.ToolNames) {
		t.Errorf("ToolNames is %v, but Tools has the fields %v", domain.ToolNames, names)
	}
}

func TestSideEffectsOfRemoteToolsAreTheOrganizations(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("l", 64)
	tools := domain.MCPTool{Servers: []domain.MCPServer{
		{Name: "a", SideEffect: domain.SideEffectNone},
		{Name: "a_b", SideEffect: domain.SideEffectIdempotent},
		{Name: "c"},
		{Name: long, SideEffect: domain.SideEffectNone},
		{Name: "d", SideEffect: domain.SideEffectUnsafe},
	}}
	for name, want := range map[string]domain.SideEffect{
		"a_x": domain.SideEffectNone, "a_b_x": domain.SideEffectIdempotent, "c_x": domain.SideEffectUnsafe, "d_x": domain.SideEffectUnsafe,
		long[:54] + "_0123abcd": domain.SideEffectNone,
	} {
		if got, found := tools.SideEffectFor(name); got != want || !found {
			t.Errorf("%s: %s, %v", name, got, found)
		}
	}
	for _, name := range []string{"", "a", "b_x", "A_x", "elsewhere"} {
		if got, found := tools.SideEffectFor(name); found {
			t.Errorf("%q is %s", name, got)
		}
	}
}
