package contract_test

import (
	"testing"

	"parley/shared/contract"
	"parley/shared/domain"
)

// A message id identifies one dispatch of a run. The stream must drop a repeated message, and must
// not drop a message of another dispatch.
func TestMessageIDsAreThoseOfADispatch(t *testing.T) {
	t.Parallel()
	of := func(org string, endpoint contract.Endpoint, key string, no int) string {
		return contract.MsgID(domain.Job{RunID: "run_1", OrganizationID: org, Dedupe: contract.Dedupe(org, endpoint, key), DispatchNo: no})
	}
	id := of("org_1", contract.EndpointAutomation, "k", 1)
	if id != of("org_1", contract.EndpointAutomation, "k", 1) {
		t.Error("one dispatch has two ids")
	}
	for what, other := range map[string]string{
		"another organization's": of("org_2", contract.EndpointAutomation, "k", 1),
		"another key's":          of("org_1", contract.EndpointAutomation, "l", 1),
		"another endpoint's":     of("org_1", contract.EndpointChat, "k", 1),
		"the next dispatch's":    of("org_1", contract.EndpointAutomation, "k", 2),
	} {
		if other == id {
			t.Errorf("%s id is the same", what)
		}
	}
}
