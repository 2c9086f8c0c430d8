package contract_test

import (
	"testing"
	"time"

	"parley/shared/contract"
)

func TestClaimsAreReadStrictly(t *testing.T) {
	t.Parallel()
	var c contract.SearchClaims
	if err := contract.ReadClaims([]byte(`{"org":"o","kind":"search"}`), &c); err != nil || c.OrganizationID != "o" {
		t.Errorf("%+v, %v", c, err)
	}
	for _, raw := range []string{``, `{"org":1}`, `{"org":"o","more":true}`, `{"org":"o"} {}`, `{"org":"o"}]`} {
		if err := contract.ReadClaims([]byte(raw), &c); err == nil {
			t.Errorf("%s is read", raw)
		}
	}
}

func TestClaimsAreOverALittleLate(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for expires, want := range map[time.Time]bool{
		now.Add(time.Minute): false, now.Add(-contract.ClockLeeway / 2): false, now.Add(-2 * contract.ClockLeeway): true, {}: true,
	} {
		if got := contract.Expired(expires); got != want {
			t.Errorf("%s after now: %t", expires.Sub(now), got)
		}
	}
}
