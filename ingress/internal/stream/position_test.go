package stream

import (
	"strconv"
	"strings"
	"testing"

	"parley/shared/contract"
	"parley/shared/domain"
)

// eventMessage returns a bus message with the given number of consecutive events. The argument
// first is the id of the first event.
func eventMessage(tb testing.TB, first string, events int) []byte {
	tb.Helper()
	id := eventID(tb, first)
	var lines []byte
	for n := range events {
		lines = domain.AppendEventLine(lines, "message.delta", []byte(`{"text":"`+strconv.Itoa(id.N+n)+`"}`))
	}
	return contract.EventMessage(domain.EventChunk{Fence: id.Fence, First: id.N, Lines: lines})
}

func eventID(tb testing.TB, text string) domain.EventID {
	tb.Helper()
	id, err := domain.ParseEventID(text)
	if err != nil {
		tb.Fatal(err)
	}
	return id
}

func idsFor(events []domain.Event) string {
	ids := make([]string, len(events))
	for i, e := range events {
		ids[i] = e.ID.String()
	}
	return strings.Join(ids, " ")
}

func TestReceivedEventsFollowOrShowAGap(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		last   string
		first  string
		events int
		want   string
		gap    bool
		after  string // position after the message was received
	}{
		"next":                         {"1.3", "1.4", 1, "1.4", false, "1.4"},
		"several":                      {"1.3", "1.4", 3, "1.4 1.5 1.6", false, "1.6"},
		"again":                        {"1.3", "1.3", 1, "", false, "1.3"},
		"partly again":                 {"1.3", "1.2", 4, "1.4 1.5", false, "1.5"},
		"one missing":                  {"1.3", "1.5", 1, "", true, "1.3"},
		"many missing":                 {"1.3", "1.50", 9, "", true, "1.3"},
		"first of all":                 {"0.1", "1.1", 1, "1.1", false, "1.1"},
		"start missing":                {"0.1", "1.2", 1, "", true, "0.1"},
		"creation missing":             {"0.0", "1.1", 2, "", true, "0.0"},
		"new attempt":                  {"1.3", "3.1", 2, "3.1 3.2", false, "3.2"},
		"new attempt, start missing":   {"1.3", "3.2", 2, "", true, "1.3"},
		"new attempt before the start": {"0.1", "3.1", 2, "", true, "0.1"},
		"of a void attempt":            {"3.1", "1.4", 5, "", false, "3.1"},
		"of a void attempt, higher":    {"3.1", "2.9", 1, "", false, "3.1"},
		"notice of a new event":        {"1.3", "1.4", 0, "", true, "1.3"},
		"notice of a known event":      {"1.4", "1.4", 0, "", false, "1.4"},
		"notice of a later attempt":    {"1.4", "3.2", 0, "", true, "1.4"},
		"after an invented ID":         {"99.1", "1.4", 2, "", false, "99.1"},
	} {
		p := position{last: eventID(t, tc.last)}
		events, gap, err := p.receive(eventMessage(t, tc.first, tc.events))
		if err != nil || idsFor(events) != tc.want || gap != tc.gap || p.last.String() != tc.after {
			t.Errorf("%s: gave %q, gap %v, stands at %s, %v", name, idsFor(events), gap, p.last, err)
		}
	}
	for _, broken := range []string{"", "x", "1 2\nmessage.delta\n", "0 1\na {}\n", "1 4\na {}\nb"} {
		p := position{last: eventID(t, "1.3")}
		if events, gap, err := p.receive([]byte(broken)); err == nil || gap || len(events) > 0 || p.last.String() != "1.3" {
			t.Errorf("%q was accepted: %v %v", broken, events, gap)
		}
	}
}

func TestALogIsReadAfterTheLastEvent(t *testing.T) {
	t.Parallel()
	log := func() (events []domain.Event) {
		for _, id := range []string{"0.1", "1.1", "3.1", "3.2", "4.1"} {
			events = append(events, domain.Event{ID: eventID(t, id)})
		}
		return events
	}
	for last, want := range map[string]string{
		"0.0": "0.1 1.1 3.1 3.2 4.1", "0.1": "1.1 3.1 3.2 4.1", "1.1": "3.1 3.2 4.1", "1.900": "3.1 3.2 4.1", "2.7": "3.1 3.2 4.1",
		"3.1": "3.2 4.1", "3.9": "4.1", "4.1": "", "5.0": "", "9223372036854775807.9223372036854775807": "",
	} {
		p := position{last: eventID(t, last)}
		if got := idsFor(p.logged(log())); got != want {
			t.Errorf("after %s got %q, want %q", last, got, want)
		}
	}
}

// For any sequence of bus messages, the ids of the events that a reader returns increase, without a
// gap within an attempt.
func FuzzHeard(f *testing.F) {
	f.Add([]byte("1 1\nrun.started {}\n"), []byte("1 2\nmessage.delta {\"text\":\"a\"}\nmessage.delta {}\n"), []byte("3 1\nrun.restarted {}\n"))
	f.Add([]byte("1 4\n"), []byte("1 2\na {}\n"), []byte("1 9223372036854775807\na {}\nb {}\n"))
	f.Fuzz(func(t *testing.T, one, two, three []byte) {
		p := position{last: domain.CreatedID}
		for _, message := range [][]byte{one, two, three, one, two, three} {
			last := p.last
			events, _, err := p.receive(message)
			if err != nil && len(events) > 0 {
				t.Fatalf("%q is broken but returned events", message)
			}
			for _, e := range events {
				if !e.ID.After(last) || !e.ID.Follows(last) {
					t.Fatalf("%s came after %s", e.ID, last)
				}
				last = e.ID
			}
		}
	})
}
