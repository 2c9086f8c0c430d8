package pages

import (
	"strings"
	"testing"
)

func TestNextIsWithinTheDashboard(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"/dashboard": "/dashboard", "/dashboard/runs?status=failed&q=a%20b": "/dashboard/runs?status=failed&q=a%20b", "/dashboard/a%2Fb": "/dashboard/a%2Fb",
		"": "", "/": "", "//evil.example/dashboard": "", "https://evil.example/dashboard": "", "/dashboardx": "", "/dashboard/../api/auth/logout": "",
		"/\\evil.example": "", "/dashboard/\\x": "", "dashboard": "", "javascript:alert(1)": "", "/dashboard//x": "", "%2Fdashboard": "", "/%64ashboard": "", "%2Fdashboard/runs": "", "/dashboard\r\nX: y": "", "/dashboard/%zz": "",
		"/dashboard/" + strings.Repeat("x", MaxNext): "",
	} {
		if got := ReturnTo([]string{given}); got != want {
			t.Errorf("%q leads to %q, want %q", given, got, want)
		}
	}
	if got := ReturnTo([]string{"/dashboard", "/dashboard"}); got != "" {
		t.Errorf("two pages lead to %q", got)
	}
}
