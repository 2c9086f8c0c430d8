package testkit

import "testing"

func TestLoadFrom(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]float64{
		"0.42 2.75 6.35 1/423 12345\n": 1,
		"8.00 2.75 6.35 1/423 12345\n": 4,
		"0.42 2.75 6.35 9/423 12345\n": 4.5,
		"99.0 2.75 6.35 9/423 12345\n": maxLoad,
		"0.00 0.00 0.00 0/0 0\n":       1,
		"":                             1,
		"a b c d e":                    1,
	} {
		if got := loadFrom(content, 2); got != want {
			t.Errorf("%q: %v, want %v", content, got, want)
		}
	}
}
