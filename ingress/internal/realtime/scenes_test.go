package realtime

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what scenes come to into testdata")

// TestScenes replays scene files. A line that begins with "> " is an input, and the lines after it
// are its effects. The first line contains the session settings of a client secret, or is empty.
func TestScenes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/scenes/*.txt")
	must(t, err)
	if len(files) < 20 {
		t.Fatalf("%d scenes", len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(file)
			must(t, err)
			got, _ := play(t, string(want))
			if *update {
				must(t, os.WriteFile(file, []byte(got), 0o600))
				return
			}
			if got != string(want) {
				t.Error(firstDifference(got, string(want)))
			}
		})
	}
}

// play replays a scene. It returns the scene with the actual effects, and the first event of each
// type.
func play(tb testing.TB, scene string) (string, map[string]string) {
	tb.Helper()
	session, _, _ := strings.Cut(scene, "\n")
	r := newTestEnv(tb, session)
	r.lines = append(r.lines, session)
	for line := range strings.Lines(scene) {
		if input, is := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "> "); is {
			r.lines = append(r.lines, "> "+input)
			r.do(input)
		}
	}
	return strings.Join(r.lines, "\n") + "\n", r.seen
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return "line " + strings.Join(g[max(0, i-2):i], "\n") + "\ngot  " + g[i] + "\nwant " + w[i]
		}
	}
	return "got  " + strings.Join(g[min(len(g), len(w)):], "\n") + "\nwant " + strings.Join(w[min(len(g), len(w)):], "\n")
}

// Every type of event that the package sends occurs in a scene. The file testdata/events.jsonl
// contains the first event of each type.
func TestEveryEventOccursInAScene(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/scenes/*.txt")
	must(t, err)
	seen := map[string]string{}
	for _, file := range files {
		scene, err := os.ReadFile(file)
		must(t, err)
		_, some := play(t, string(scene))
		for kind, body := range some {
			if _, there := seen[kind]; !there {
				seen[kind] = body
			}
		}
	}
	for kind := range needed {
		if seen[kind] == "" {
			t.Errorf("no scene has a %s", kind)
		}
	}
	var out strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(seen)) {
		body := seen[kind]
		if kind == "response.output_audio.delta" { // this event contains several seconds of silence
			body = body[:min(len(body), 200)]
		}
		out.WriteString(body + "\n")
	}
	if *update {
		must(t, os.WriteFile("testdata/events.jsonl", []byte(out.String()), 0o600))
	}
	want, err := os.ReadFile("testdata/events.jsonl")
	must(t, err)
	if out.String() != string(want) {
		t.Error(firstDifference(out.String(), string(want)))
	}
}
