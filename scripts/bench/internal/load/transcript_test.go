package load

import (
	"strings"
	"testing"
)

const (
	created = "id: 0.1\nevent: run.created\ndata: {\"runId\":\"run_1\"}\n\n"
	started = "id: 1.1\nevent: run.started\ndata: {\"runId\":\"run_1\"}\n\n"
	first   = "id: 1.2\nevent: message.delta\ndata: {\"runId\":\"run_1\",\"text\":\"echo: \"}\n\n"
	second  = "id: 1.3\nevent: message.delta\ndata: {\"runId\":\"run_1\",\"text\":\"hello\"}\n\n"
	ended   = "id: 1.4\nevent: run.completed\ndata: {\"runId\":\"run_1\"," +
		"\"run\":{\"status\":\"completed\",\"message\":\"echo: hello\",\"attempts\":1}}\n\n"
)

func TestTranscript(t *testing.T) {
	t.Parallel()
	restarted := "id: 2.1\nevent: run.restarted\ndata: {\"runId\":\"run_1\",\"afterStep\":0}\n\n"
	again := strings.NewReplacer("1.2", "2.2", "1.3", "2.3", "1.4", "2.4").Replace(first + second + ended)
	tests := map[string]struct {
		stream string
		want   string // part of the error; empty for none
	}{
		"whole":               {created + ": ping\n\n" + started + first + ": ping\n\n" + second + ended, ""},
		"restarted":           {created + started + first + restarted + again, ""},
		"cut":                 {created + started + first + second, "ended before"},
		"a piece lost":        {created + started + first + ended, "the pieces are"},
		"after the end":       {created + started + first + second + ended + ended, "has the events"},
		"never started":       {created + first + second + ended, "has the events"},
		"no JSON":             {"id: 0.1\nevent: run.created\ndata: hello\n\n", "reading event"},
		"somebody else's":     {strings.ReplaceAll(created+started+first+second+ended, "hello", "other"), "with \"echo: other\""},
		"ended badly":         {strings.ReplaceAll(created+started+first+second+ended, `"completed"`, `"failed"`), "is failed"},
		"at a second attempt": {strings.ReplaceAll(created+started+first+second+ended, `"attempts":1`, `"attempts":2`), "attempt 2"},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun := 0
			got := &Transcript{Started: func() { begun++ }}
			err := got.read(strings.NewReader(test.stream))
			if err == nil {
				err = got.Check("hello")
			}
			if test.want == "" && (err != nil || begun != 1) {
				t.Fatalf("begun %d times: %v", begun, err)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Fatalf("error is %v, want one with %q", err, test.want)
			}
		})
	}
}
