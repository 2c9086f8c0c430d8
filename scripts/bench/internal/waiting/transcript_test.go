package waiting

import (
	"strings"
	"testing"
)

const (
	created   = "id: 0.1\nevent: run.created\ndata: {\"runId\":\"run_1\"}\n\n"
	started   = "id: 1.1\nevent: run.started\ndata: {\"runId\":\"run_1\"}\n\n"
	first     = "id: 1.2\nevent: message.delta\ndata: {\"runId\":\"run_1\",\"text\":\"echo: \"}\n\n"
	second    = "id: 1.3\nevent: message.delta\ndata: {\"runId\":\"run_1\",\"text\":\"hello\"}\n\n"
	completed = "id: 1.4\nevent: run.completed\ndata: {\"runId\":\"run_1\"," +
		"\"run\":{\"status\":\"completed\",\"message\":\"echo: hello\",\"attempts\":1}}\n\n"
)

func TestTranscript(t *testing.T) {
	t.Parallel()
	restarted := "id: 2.1\nevent: run.restarted\ndata: {\"runId\":\"run_1\",\"afterStep\":0}\n\n"
	again := strings.NewReplacer("1.2", "2.2", "1.3", "2.3", "1.4", "2.4").Replace(first + second + completed)
	tests := map[string]struct {
		stream string
		want   string // a part of the error; empty for none
	}{
		"whole":               {created + ": ping\n\n" + started + first + ": ping\n\n" + second + completed, ""},
		"restarted":           {created + started + first + restarted + again, ""},
		"cut":                 {created + started + first + second, "ended before"},
		"a piece lost":        {created + started + first + completed, "the pieces are"},
		"a piece doubled":     {created + started + first + first + second + completed, "with id 1.2 after 1.2"},
		"out of order":        {created + started + second + first + completed, "with id 1.2 after 1.3"},
		"after the end":       {created + started + first + second + completed + completed, "with id 1.4"},
		"never started":       {created + first + second + completed, "has the events"},
		"no id":               {"event: run.created\ndata: {}\n\n", "has the id"},
		"no JSON":             {"id: 0.1\nevent: run.created\ndata: hello\n\n", "reading event"},
		"no event stream":     {"hello\n\n", "a line"},
		"somebody else's":     {strings.ReplaceAll(created+started+first+second+completed, "hello", "other"), "with \"echo: other\""},
		"ended badly":         {strings.ReplaceAll(created+started+first+second+completed, `"completed"`, `"failed"`), "is failed"},
		"at a second attempt": {strings.ReplaceAll(created+started+first+second+completed, `"attempts":1`, `"attempts":2`), "attempt 2"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun := 0
			got := &transcript{started: func() { begun++ }}
			var err error
			for line := range strings.SplitSeq(strings.TrimSuffix(test.stream, "\n"), "\n") {
				if err = got.line(line); err != nil {
					break
				}
			}
			if err == nil {
				err = got.check("hello")
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
