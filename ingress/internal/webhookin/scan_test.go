package webhookin

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// find returns the values that a JSON parser finds at the same paths, in payloads with spaces,
// escapes and repeated names.
func TestFindAgreesWithAParser(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "0", "1", "ü"}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		payload := randomJSON(random, names, 4)
		if !isPayload([]byte(payload)) {
			t.Fatalf("%s is not a payload", payload)
		}
		var whole any
		if err := json.Unmarshal([]byte(payload), &whole); err != nil {
			t.Fatalf("%s: %v", payload, err)
		}

		w, paths := newWanted(), [][]string{}
		for range 3 {
			path := make([]string, 1+random.IntN(3))
			for i := range path {
				path[i] = names[random.IntN(len(names))]
			}
			if w.add(path, len(paths)) == len(paths) {
				paths = append(paths, path)
			}
		}

		for i, raw := range find([]byte(payload), w, len(paths)) {
			var got any
			if raw != nil {
				if err := json.Unmarshal(raw, &got); err != nil || len(strings.TrimSpace(string(raw))) != len(raw) {
					t.Fatalf("%v in %s: %q, %v", paths[i], payload, raw, err)
				}
			}
			want, exists := valueAt(whole, paths[i])
			if exists != (raw != nil) || !reflect.DeepEqual(got, want) {
				t.Fatalf("%v in %s: %q, want %v, %v", paths[i], payload, raw, want, exists)
			}
		}
	}
}

// valueAt returns the value at a path of a decoded JSON value.
func valueAt(value any, path []string) (at any, exists bool) {
	for _, name := range path {
		switch v := value.(type) {
		case map[string]any:
			value, exists = v[name]
		case []any:
			i, err := strconv.Atoi(name)
			if exists = err == nil && i < len(v); exists {
				value = v[i]
			}
		default:
			exists = false
		}
		if !exists {
			return nil, false
		}
	}
	return value, true
}

// randomJSON returns a JSON value with at most the given number of levels.
func randomJSON(random *rand.Rand, names []string, levels int) string {
	space := []string{"", "", " ", "\n\t", "\r\n"}[random.IntN(5)]
	scalars := []string{
		`""`, `"\""`, `"\\"`, `"\\\""`, `"a,b:{}[]"`, `"]}"`, `"ü\u00fc"`, "0", "-1.5e+3", "true", "false", "null", "{}", "[]", "[ ]", "{\n}",
	}
	kind := random.IntN(3)
	if levels == 0 || kind == 0 {
		return space + scalars[random.IntN(len(scalars))] + space
	}
	var members []string
	for range random.IntN(5) {
		member := randomJSON(random, names, levels-1)
		if kind == 1 {
			name := strconv.Quote(names[random.IntN(len(names))])
			if random.IntN(4) == 0 {
				name = strings.NewReplacer("a", `\u0061`, "ü", `\u00fc`).Replace(name)
			}
			member = space + name + space + ":" + member
		}
		members = append(members, member)
	}
	if kind == 1 {
		return space + "{" + strings.Join(members, ",") + space + "}" + space
	}
	return space + "[" + strings.Join(members, ",") + space + "]" + space
}

// The maximum depth does not depend on brackets within strings.
func TestDepthOfPayloads(t *testing.T) {
	t.Parallel()
	deep := func(levels int, inside string) string {
		return strings.Repeat(`{"a":[`, levels/2) + inside + strings.Repeat("]}", levels/2)
	}
	for payload, want := range map[string]bool{
		deep(maxDepth, ""):                                   true,
		deep(maxDepth, "1,2"):                                true,
		deep(maxDepth, `"[[{{\"[["`):                         true,
		deep(maxDepth, `{}`):                                 false,
		deep(maxDepth, `"",[]`):                              false,
		"[" + strings.Repeat("[],{},", maxDepth) + "[]]":     true,
		`"` + strings.Repeat("[", maxDepth+1) + `"`:          true,
		strings.Repeat("[", 100_000):                         false,
		`"` + strings.Repeat(`\\`, 100_000) + `\"`:           false,
		`["` + strings.Repeat(`\"`, 100_000) + `"]`:          true,
		deep(maxDepth, "") + " " + deep(2, ""):               false,
		" \n" + deep(maxDepth, "") + "\t":                    true,
		"[" + strings.Repeat("{}", 2) + "]":                  false,
		`{"a":"` + strings.Repeat("}", maxDepth) + `","b":}`: false,
	} {
		if got := isPayload([]byte(payload)); got != want {
			t.Errorf("%.80s: %v, want %v", payload, got, want)
		}
	}
}
