package ratelimit

import (
	"strconv"
	"testing"
	"time"

	"parley/shared/domain"
)

// fiveCredentials returns five callers with different credentials of the same user or organization.
func fiveCredentials(of domain.Caller) []domain.Caller {
	out := make([]domain.Caller, 5)
	for n := range out {
		out[n] = of
		out[n].Kind, out[n].Credential = domain.CallerUser, of.UserID+"_key_"+strconv.Itoa(n)
	}
	return out
}

func TestCredentialsOfOneUserShareATotal(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]domain.Caller{
		"a user's":          {UserID: "usr_1", OrganizationID: "org_1"},
		"an organization's": {OrganizationID: "org_1"},
	} {
		l := newLedger()
		a, b := ingress(l, defaults), ingress(l, defaults)
		passed := 0
		var last Decision
		for range 330 {
			for _, caller := range fiveCredentials(of) {
				got, d := sendRequests(t, 1, caller, a, b)
				passed += got
				last = d
			}
		}
		if passed != 600 || last.Allowed || last.Tier != "user-total" || last.Limit != 600 {
			t.Errorf("%s keys: %d of 1650 requests passed; %+v", name, passed, last)
		}
		other := domain.Caller{Kind: domain.CallerUser, UserID: "usr_2", OrganizationID: "org_2", Credential: "key_2"}
		if got, _ := sendRequests(t, 300, other, a, b); got != 300 {
			t.Errorf("with %s keys exhausted, %d requests of another user passed", name, got)
		}
	}
}

// A request that is refused by the credential's own limit does not count against the user's total
// limit. A request that is refused by the total limit does not count against the credential's
// limit.
func TestARefusalCostsNothingElsewhere(t *testing.T) {
	t.Parallel()
	limits := ingress(newLedger(), Settings{Demo: 1, User: 10, UserTotal: 15, System: 20})
	callers := fiveCredentials(domain.Caller{UserID: "usr_1"})
	if got, d := sendRequests(t, 100, callers[0], limits); got != 10 || d.Tier != "user" {
		t.Errorf("%d passed, %+v", got, d)
	}
	if got, d := sendRequests(t, 100, callers[1], limits); got != 5 || d.Tier != "user-total" {
		t.Errorf("then %d of another credential, %+v", got, d)
	}
	if d := limits.user.peek(callers[1].Credential); d.Remaining != 5 {
		t.Errorf("%d remain of the credential's own limit", d.Remaining)
	}
	limits.Refund(callers[0])
	if got, _ := sendRequests(t, 5, callers[1], limits); got != 1 {
		t.Errorf("%d passed after a refund", got)
	}
}

func TestTheTightestLimitIsReported(t *testing.T) {
	t.Parallel()
	limits := ingress(newLedger(), Settings{Demo: 1, User: 10, UserTotal: 12, System: 20})
	callers := fiveCredentials(domain.Caller{UserID: "usr_1"})
	if _, d := sendRequests(t, 3, callers[0], limits); d.Tier != "user" || d.Remaining != 7 {
		t.Errorf("%+v", d)
	}
	if _, d := sendRequests(t, 1, callers[1], limits); d.Tier != "user-total" || d.Remaining != 8 {
		t.Errorf("%+v", d)
	}
	if d, ok := limits.Peek(callers[2]); !ok || d.Tier != "user-total" || d.Remaining != 8 {
		t.Errorf("%+v", d)
	}
}

// The time until the limit resets begins with the last allowed request. A refused request does not
// change it.
func TestResetTimeCountsDown(t *testing.T) {
	t.Parallel()
	l := newLedger()
	limits := ingress(l, Settings{Demo: 1, User: 4, System: 9})
	caller := domain.Caller{Kind: domain.CallerUser, Credential: "key_1"}
	for range 4 {
		if _, d := sendRequests(t, 1, caller, limits); d.Reset != 15*time.Second {
			t.Errorf("%+v", d)
		}
	}
	l.advance(4 * time.Second)
	if d, _ := limits.Peek(caller); d.Reset != 11*time.Second {
		t.Errorf("four seconds later %+v", d)
	}
	if _, d := sendRequests(t, 1, caller, limits); d.Allowed || d.Reset != 11*time.Second || d.RetryAfter != d.Reset {
		t.Errorf("refused %+v", d)
	}
}
