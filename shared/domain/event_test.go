package domain_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"parley/shared/domain"
)

func TestEventIDsAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"0.1", "1.1", "1.7", "12.345", "0.0", "9223372036854775807.9223372036854775807"} {
		id, err := domain.ParseEventID(text)
		if err != nil || id.String() != text {
			t.Errorf("%q became %v, %v", text, id, err)
		}
	}
	for _, text := range []string{
		"", "1", ".", "1.", ".1", "1.2.3", "-1.2", "1.-2", "+1.2", "01.2", "1.02", " 1.2", "1.2 ", "1,2", "a.b", "0x1.2", "1_0.2",
		"9223372036854775808.1", "1.9223372036854775808", "1e3.1", "１.２", "1.2\n", "null", strings.Repeat("9", 10_000),
	} {
		if id, err := domain.ParseEventID(text); err == nil {
			t.Errorf("%q was taken for %v", text, id)
		}
	}
}

func TestEventIDsKnowTheirOrderAndWhatIsMissing(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		last, next     string
		after, follows bool
	}{
		{"0.0", "0.1", true, true},
		{"0.1", "1.1", true, true},
		{"0.0", "1.1", true, false}, // the creation is missing
		{"0.1", "1.2", true, false}, // the start is missing
		{"0.1", "3.1", true, false}, // the event of the run's first start is missing before the first event of an attempt
		{"1.1", "1.2", true, true},
		{"1.2", "1.4", true, false},
		{"1.4", "1.4", false, false},
		{"1.4", "1.3", false, false},
		{"1.4", "3.1", true, true},
		{"1.4", "3.2", true, false},
		{"3.1", "1.5", false, false},
		{"3.1", "1.1", false, false},
	} {
		last, next := id(t, tc.last), id(t, tc.next)
		if next.After(last) != tc.after || next.Follows(last) != tc.follows {
			t.Errorf("%s behind %s: after %v, follows %v", next, last, next.After(last), next.Follows(last))
		}
	}
}

func id(t *testing.T, text string) domain.EventID {
	t.Helper()
	id, err := domain.ParseEventID(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestChunksAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	texts := []string{"one", "", "line\nbreak\r\n and \u2028", `quote " and \`, "emoji ☾ <b>&", strings.Repeat("x", 100_000)}
	var lines []byte
	for _, text := range texts {
		data, err := domain.DeltaData(text)
		if err != nil {
			t.Fatal(err)
		}
		lines = domain.AppendEventLine(lines, domain.EventMessageDelta, data)
	}
	lines = domain.AppendEventLine(lines, domain.EventRunRestarted, domain.RestartedData(4))
	events, err := domain.EventChunk{Fence: 3, First: 5, Lines: lines}.Events()
	if err != nil || len(events) != len(texts)+1 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	for i, text := range texts {
		data, err := domain.DeltaData(text)
		if err != nil {
			t.Fatal(err)
		}
		if e := events[i]; e.ID != (domain.EventID{Fence: 3, N: 5 + i}) || e.Type != domain.EventMessageDelta || !bytes.Equal(e.Data, data) {
			t.Errorf("event %d is %s %s %.100s", i, e.ID, e.Type, e.Data)
		}
	}
	if last := events[len(texts)]; last.ID.String() != "3.11" || last.Type != "run.restarted" || string(last.Data) != `{"afterStep":4}` {
		t.Errorf("last event %s %s %s", last.ID, last.Type, last.Data)
	}
	for _, broken := range []string{"x", "\n", "message.delta\n", "message.delta {}", " {}\n", "Message {}\n", "message.delta {\n", "message.delta []\n", "a {}\n\n"} {
		if events, err := (domain.EventChunk{Lines: []byte(broken)}).Events(); err == nil {
			t.Errorf("%q was taken for %v", broken, events)
		}
	}
}

func TestDerivedEventsSayWhatTheirRowSays(t *testing.T) {
	t.Parallel()
	agent, at := "ag_1", domain.At(time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC))
	created, err := domain.CreatedEvent(&domain.Run{AgentID: &agent, SessionID: "s", Trigger: domain.Trigger{Type: "chat"}, CreatedAt: at})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		event domain.Event
		want  string
	}{
		{created, `0.1 run.created {"agentId":"ag_1","templateId":null,"sessionId":"s","trigger":{"type":"chat","automationId":null},"createdAt":"2026-01-02T03:04:05.006Z"}`},
		{domain.StartedEvent(at), `1.1 run.started {"startedAt":"2026-01-02T03:04:05.006Z"}`},
		{domain.EndedEvent(domain.EventID{Fence: 2, N: 1}, domain.RunTimedOut, []byte(`{"id":"run_1"}`)), `2.1 run.timed_out {"run":{"id":"run_1"}}`},
	} {
		if got := tc.event.ID.String() + " " + tc.event.Type + " " + string(tc.event.Data); got != tc.want {
			t.Errorf("got  %s\nwant %s", got, tc.want)
		}
	}
}

func FuzzEventID(f *testing.F) {
	for _, seed := range []string{"1.7", "0.1", "", "-1.1", "01.1", "9223372036854775808.1", "1.1.1", "\x00.1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := domain.ParseEventID(text)
		if err == nil && (id.String() != text || id.Fence < 0 || id.N < 0) {
			t.Errorf("%q was taken for %s", text, id)
		}
	})
}

func FuzzEventChunk(f *testing.F) {
	for _, seed := range []string{"message.delta {\"text\":\"a\"}\n", "a {}\nb {}\n", "", "\n", "a {", "a {}\n\n", "\x00 {}\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		events, err := domain.EventChunk{Fence: 1, First: 2, Lines: []byte(text)}.Events()
		if err != nil {
			return
		}
		var again []byte
		for _, e := range events {
			again = domain.AppendEventLine(again, e.Type, e.Data)
		}
		if string(again) != text {
			t.Errorf("%q became %q", text, again)
		}
	})
}
