package run

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// A malformed Prefer header is ignored (RFC 7240).
func TestPreferredWait(t *testing.T) {
	t.Parallel()
	const maximum = 55 * time.Second
	a := &Handler{Deps{WaitDefault: maximum}}
	for prefer, want := range map[string]time.Duration{
		"": maximum, "wait=10": 10 * time.Second, `wait="7"`: 7 * time.Second, "WAIT = 3 ; x=y": 3 * time.Second, "wait=-1": maximum, "wait=x": maximum, "wait=": maximum, "wait": maximum,
		"wait=1e3": maximum, "wait=99999999999999999999": maximum, "wait=0": 0, "respond-async": 0, "respond-async, wait=5": 0, "wait=2, wait=9": 2 * time.Second,
		`foo="a, wait=3"`: maximum, `foo="a, wait=3", wait=4`: 4 * time.Second, "return=minimal; wait=3": maximum, ",,;=": maximum, "wait=+5": maximum,
	} {
		if got := preferredWait(http.Header{"Prefer": {prefer}}, a.WaitDefault); got != want {
			t.Errorf("%q is a wait of %v, want %v", prefer, got, want)
		}
	}
}

// preferredWait never returns a negative time or more than the maximum.
func FuzzPrefer(f *testing.F) {
	for _, text := range []string{
		"wait=10", "respond-async", "respond-async, wait=5", "wait", "wait=", "wait=-1", `wait="7"`, "WAIT = 3 ; x=y", "wait=99999999999999999999", "wait=1e3", ",,;=", "return=minimal\nwait=4",
	} {
		f.Add(text)
	}
	a := &Handler{Deps{WaitDefault: 55 * time.Second}}
	f.Fuzz(func(t *testing.T, text string) {
		wait := preferredWait(http.Header{"Prefer": strings.Split(text, "\n")}, a.WaitDefault)
		if wait < 0 || wait > 55*time.Second {
			t.Errorf("%q is a wait of %v", text, wait)
		}
	})
}
