package prove

import (
	"cmp"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func book(t *testing.T, l *ledger, key, body string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.address+effectPath, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}

	res, err := new(http.Client).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.ReadAll(res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode
}

func ledgerFor(t *testing.T, forgets bool) *ledger {
	t.Helper()
	l, err := startLedger(t.Context(), forgets)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return l
}

func TestLedgerHonoursKeysAndNothingElse(t *testing.T) {
	t.Parallel()
	l := ledgerFor(t, false)
	for _, c := range []struct {
		key, body string
		status    int
	}{
		{"a", `{"trigger":6}`, http.StatusOK},
		{"a", `{"trigger":6}`, http.StatusOK},
		{"b", `{"trigger":6}`, http.StatusOK}, // another key has a separate effect
		{"a", `{"trigger":3}`, http.StatusOK}, // the same key with another trigger has a separate effect
		{"", `{"trigger":13}`, http.StatusOK},
		{"", `{"trigger":13}`, http.StatusOK}, // without a key, each request is a separate effect
		{"c", `{"trig`, http.StatusBadRequest},
		{"d", `{"trigger":-1}`, http.StatusBadRequest},
	} {
		if got := book(t, l, c.key, c.body); got != c.status {
			t.Errorf("%s %s: %d", c.key, c.body, got)
		}
	}

	got := l.bookings()
	slices.SortFunc(got, func(a, b Booking) int { return cmp.Or(a.Trigger-b.Trigger, strings.Compare(a.Key, b.Key)) })
	want := []Booking{{3, "a", 1}, {6, "a", 2}, {6, "b", 1}, {13, "(none, request 5)", 1}, {13, "(none, request 6)", 1}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("booked %+v", got)
	}
	if l.underWay() != 0 {
		t.Errorf("%d requests are still in progress", l.underWay())
	}
}

func TestSabotagedLedgerForgets(t *testing.T) {
	t.Parallel()
	l := ledgerFor(t, true)
	for n := range 2 * forgetEvery {
		l.book(entry{n, keyFor(n)})
	}
	if got := len(l.bookings()); got != 2*forgetEvery-2 {
		t.Errorf("kept %d of %d bookings", got, 2*forgetEvery)
	}
}
