package ingress_test

import "testing"

// If an automation's request is repeated after its session was erased, the response has the error
// code "erased".
func TestErasedAutomation(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	r.echo()
	body := `{"target":"` + r.agent + `","input":{"message":"hi"},"idempotencyKey":"k","sessionId":"s"}`
	r.call("POST", "/api/internal/run-automation", r.asKey(), body).want(200)
	r.call("DELETE", "/api/sessions?id=s&principal=system&agentId="+r.agent, r.asKey(), "").want(200)
	if p := r.call("POST", "/api/internal/run-automation", r.asKey(), body).problem(410); p.Code != "erased" {
		t.Errorf("code %s", p.Code)
	}
}
