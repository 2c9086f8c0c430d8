package agenttools

import (
	"slices"
	"strings"
	"testing"
)

func TestToolNamesAreValidForClients(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"Release notes": "release_notes", "  Ünïcode -- & Co.  ": "n_code_co", "客服": "agent", "": "agent", "___": "agent", "A1": "a1",
		strings.Repeat("ab ", 40): strings.TrimSuffix(strings.Repeat("ab_", 17), "_")[:50],
	} {
		if got := slug(name); got != want || len(got) > maxSlug {
			t.Errorf("%q became %q, want %q", name, got, want)
		}
	}
}

func TestToolsAreFoundByTheirNames(t *testing.T) {
	t.Parallel()
	agents := []Agent{
		{ID: "ag_01aaaaaaaaaaaaaaaaaaaa11111", Name: "One"},
		{ID: "ag_01bbbbbbbbbbbbbbbbbbbb22222", Name: "One"},
		{ID: "ag_01cccccccccccccccccccc11111", Name: "One"},
		{ID: "ag_01dddddddddddddddddddd33333", Name: "Two"},
		{ID: "ag_01eeeeeeeeeeeeeeeeeeee22222", Name: "Three"},
	}
	names := toolNames(agents)
	want := []string{"one_11111", "one_22222", "one_01cccccccccccccccccccc11111", "two_33333", "three_22222"}
	if !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
	for i, name := range names {
		if got, ok := find(agents, name); !ok || got.ID != agents[i].ID {
			t.Errorf("%s finds %v, %v", name, got, ok)
		}
	}
	for name, id := range map[string]string{
		"renamed_since_33333": agents[3].ID, "was_11111": "", "was_22222": "", "two": "", "33333": "", "": "", "two_44444": "",
	} {
		if got, ok := find(agents, name); got.ID != id || ok != (id != "") {
			t.Errorf("%q finds %v, %v", name, got, ok)
		}
	}
}
