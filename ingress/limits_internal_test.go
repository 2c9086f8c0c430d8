package ingress

import (
	"math"
	"testing"

	"parley/shared/config"
	"parley/shared/store/accountdb"
)

func TestAccountLimitsOfSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ keys, organizations, memberships int }{
		{0, 0, 0}, {50, 1, 100}, {100, 20, 100}, {100, 21, 105}, {100, 500, 2500}, {100, math.MaxInt, math.MaxInt},
	} {
		cfg := Config{Ingress: config.Ingress{KeysPerOrganization: c.keys, OrganizationsPerUser: c.organizations}}
		want := accountdb.Limits{
			KeysPerOrganization: c.keys, KeysPerUser: 100, OrganizationsPerUser: c.organizations, MembershipsPerUser: c.memberships,
		}
		if got := accountLimits(cfg); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}
