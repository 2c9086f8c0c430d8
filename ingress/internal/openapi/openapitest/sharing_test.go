package openapitest

import (
	"strings"
	"testing"
)

// TestSharing checks that Check rejects responses that pages of other origins can read although
// they must not.
func TestSharing(t *testing.T) {
	t.Parallel()
	c, err := Document()
	if err != nil {
		t.Fatal(err)
	}
	const origin, path = "https://a.example.com", "/api/widget/sessions"
	aProblem := []string{"Content-Type", "application/problem+json", "X-Request-Id", "r"}
	shared := []string{"Access-Control-Allow-Origin", origin, "Vary", "Origin"}
	denied := strings.NewReplacer("not_found", "permission_denied", "404", "403", "/api/runs", path).Replace(problem)
	from := func(e Exchange) Exchange {
		e.RequestHeader.Set("Origin", origin)
		return e
	}
	preflight := []string{"Access-Control-Allow-Methods", "POST"}
	for name, tt := range map[string]struct {
		exchange Exchange
		wrong    string
	}{
		"shared":               {from(exchange("POST", path, 403, denied, append(shared, aProblem...)...)), ""},
		"not shared":           {from(exchange("POST", path, 403, denied, aProblem...)), ""},
		"another path":         {from(exchange("GET", "/api/sessions?id=x", 404, problem, append(shared, aProblem...)...)), "other origins to read it"},
		"another method":       {from(exchange("GET", "/api/agents?id=x", 404, problem, append(shared, aProblem...)...)), "the response to GET"},
		"without Origin":       {exchange("POST", path, 403, denied, append(shared, aProblem...)...), "but the request has the origins"},
		"with everybody":       {from(exchange("POST", path, 403, denied, append([]string{"Access-Control-Allow-Origin", "*", "Vary", "Origin"}, aProblem...)...)), `the origins ["*"]`},
		"cached for all":       {from(exchange("POST", path, 403, denied, append(shared[:2:2], aProblem...)...)), "lacks Vary: Origin"},
		"with cookies":         {from(exchange("POST", path, 403, denied, append([]string{"Access-Control-Allow-Credentials", "true"}, aProblem...)...)), "to send cookies"},
		"preflight":            {from(exchange("OPTIONS", path, 204, "", append(preflight, shared...)...)), ""},
		"preflight: body":      {from(exchange("OPTIONS", path, 204, "x", append(preflight, shared...)...)), "the response has"},
		"preflight of no page": {from(exchange("OPTIONS", path, 204, "", preflight...)), "the response has"},
		"preflight elsewhere":  {from(exchange("OPTIONS", "/api/sessions", 204, "", append(preflight, shared...)...)), "other origins to read it"},
		"preflight of any method": {
			from(exchange("OPTIONS", path, 204, "", append([]string{"Access-Control-Allow-Methods", "DELETE"}, shared...)...)), "the response has",
		},
	} {
		if err := c.Check(tt.exchange); (err == nil) != (tt.wrong == "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
			t.Errorf("%s: %v, want something about %q", name, err, tt.wrong)
		}
	}
}
