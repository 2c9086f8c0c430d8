package ingress_test

import (
	"strings"
	"testing"

	"parley/ingress"
)

func TestLimitsMustIncreaseWithTheTier(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string][3]int{
		"none for the demo": {0, 300, 6000}, "user like demo": {300, 300, 6000}, "user below demo": {400, 300, 6000},
		"system like user": {10, 300, 300}, "system below user": {10, 300, 200}, "negative": {-1, 300, 6000},
	} {
		cfg := defaults()
		cfg.LimitDemo, cfg.LimitUser, cfg.LimitSystem = limits[0], limits[1], limits[2]
		if _, err := ingress.New(cfg, ingress.Deps{}); err == nil || !strings.Contains(err.Error(), "LIMIT_") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
