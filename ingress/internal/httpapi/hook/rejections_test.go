package hook

import (
	"fmt"
	"testing"
	"time"

	"parley/shared/store/hookdb"
)

// TestRejectionsOfOneOrganization checks that an organization with many hooks uses up only its own
// limit on log entries. The limits of other organizations and of its own verified senders are not
// affected.
func TestRejectionsOfOneOrganization(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r := newRejections(func() time.Time { return now })
	send := func(org string, verified bool) (logged int) {
		for n := range 5 * rejectionsPerMinute {
			d := hookdb.Rejected{Client: fmt.Sprint(n), Verified: verified, Reason: "signature"}
			if r.allow(org, fmt.Sprint(org, n%1000), &d) {
				logged++
			}
		}
		return logged
	}
	for _, org := range []string{"org_1", "org_2"} {
		if others, verified := send(org, false), send(org, true); others != rejectionsPerOrg || verified != rejectionsPerOrg {
			t.Errorf("%s: logged %d of others, %d of verified senders", org, others, verified)
		}
	}
	now = now.Add(time.Minute)
	if n := send("org_1", false); n != rejectionsPerOrg {
		t.Errorf("a minute later: logged %d", n)
	}
}
