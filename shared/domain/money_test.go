package domain_test

import (
	"testing"

	"parley/shared/domain"
)

func TestMoney(t *testing.T) {
	t.Parallel()
	for micros, want := range map[int64]string{
		0:                         "0 EUR",
		1:                         "0.000001 EUR",
		310:                       "0.00031 EUR",
		500_000:                   "0.50 EUR",
		1_250_000:                 "1.25 EUR",
		25_000_000:                "25 EUR",
		100_000_010:               "100.00001 EUR",
		1_000_000_000_000_000:     "1000000000 EUR",
		9_223_372_036_854_775_807: "9223372036854.775807 EUR",
	} {
		if got := domain.Money(micros, "EUR"); got != want {
			t.Errorf("%d millionths are %q, want %q", micros, got, want)
		}
	}
}

func TestValidCurrency(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]bool{
		"USD": true, "EUR": true, "AED": true, "ZWG": true, "JPY": true,
		"": false, " ": false, "usd": false, "US": false, "USDX": false, "USD ": false, "D E": false, "ED ": false, "XAU": false, "XXX": false, "€": false,
	} {
		if got := domain.ValidCurrency(code); got != want {
			t.Errorf("%q: %v", code, got)
		}
	}
}
