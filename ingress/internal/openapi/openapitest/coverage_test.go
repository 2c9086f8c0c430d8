package openapitest

import (
	"maps"
	"strings"
	"testing"
)

// TestReport checks that the report lists documented responses that no test received, and
// superfluous entries in the list of exceptions.
func TestReport(t *testing.T) {
	t.Parallel()
	whole, err := Document()
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]string{"* → 500": "a reason", "GET /metrics → 200": "ingress"}
	for name, tt := range map[string]struct {
		base          string
		more          map[string]string // additional entries in the list of exceptions
		unseen, extra string
		wrong         string
	}{
		"all seen":               {base: Base},
		"one not seen":           {base: Base, unseen: "GET /docs → 200", wrong: "no test received the response GET /docs → 200"},
		"one with a reason":      {base: Base, unseen: "GET /docs → 200", more: map[string]string{"GET /docs → 200": "a reason"}},
		"a reason without need":  {base: Base, more: map[string]string{"GET /docs → 200": "a reason"}, wrong: "remove GET /docs → 200"},
		"a reason for nothing":   {base: Base, more: map[string]string{"GET /nothing → 200": "a reason"}, wrong: "not documented"},
		"the other's, seen here": {base: Base, extra: "GET /metrics → 200"},
		"the other's":            {base: "ingress"},
		"the other's, not seen":  {base: "ingress", unseen: "GET /metrics → 200", wrong: "no test received the response GET /metrics → 200"},
		"not the other's":        {base: "ingress", unseen: "GET /docs → 200"},
	} {
		c := &Contract{doc: whole.doc, seen: map[string]bool{}}
		for _, answer := range c.answers() {
			elsewhere := tt.base == Base && answer == "GET /metrics → 200"
			c.seen[answer] = answer != tt.unseen && !elsewhere && !strings.HasSuffix(answer, "500") || answer == tt.extra
		}
		all := maps.Clone(list)
		maps.Copy(all, tt.more)
		var out strings.Builder
		code := c.report(&out, tt.base, all)
		if (tt.wrong == "") != (code == 0) || !strings.Contains(out.String(), tt.wrong) || tt.wrong == "" && out.Len() > 0 {
			t.Errorf("%s: code %d, %s", name, code, out.String())
		}
	}
}
