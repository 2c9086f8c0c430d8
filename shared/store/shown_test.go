package store_test

import (
	"encoding/json"
	"testing"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/shared/store/rundb"
	"parley/shared/store/sessiondb"
)

// A cancelled run keeps the part of its answer that was shown, and so do the session and its
// history. This part is the text that was stored for the history, or else the text in the
// checkpoints of the last attempt.
func TestACancelledRunKeepsTheShownText(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	ctx := t.Context()
	begun := func(lane domain.Lane, session string, chunks ...executiondb.Chunk) *executiondb.Claimed {
		t.Helper()
		run := b.run("", session)
		run.Lane = lane
		c := b.mustClaim(b.accept(wideWindow, run)[0].Run.Run.ID)
		for _, chunk := range chunks {
			b.save(true, c.Held(), chunk)
		}
		return c
	}
	delta := func(text string) string { return "message.delta {\"text\":\"" + text + "\"}\n" }
	first := executiondb.Chunk{FirstN: 2, LastN: 3, Events: delta("Once ") + delta(`up\u0000on`)}
	second := executiondb.Chunk{FirstN: 4, LastN: 5, Events: "tool.started {}\n" + delta(" a time")}

	for name, c := range map[string]struct {
		run    *executiondb.Claimed
		stored *string
		want   *string
		kept   bool // whether the history has the question
	}{
		"checkpoints":       {begun(domain.LaneAutomation, "a", first, second), nil, new("Once upon a time"), true},
		"a stored text":     {begun(domain.LaneChat, "b", first, second), new("Once up"), new("Once up"), true},
		"nothing was shown": {begun(domain.LaneAutomation, "c", first), new(""), nil, true},
		"no text":           {begun(domain.LaneAutomation, "d"), nil, nil, false},
		"a chat, no text":   {begun(domain.LaneChat, "e"), nil, nil, true},
		"unreadable":        {begun(domain.LaneAutomation, "f", executiondb.Chunk{FirstN: 2, LastN: 2, Events: "no event"}), nil, nil, false},
	} {
		if c.stored != nil {
			b.heard(c.run.RunID, domain.Playback{Text: *c.stored})
		}
		run, ended, err := b.s.Executions.Cancel(ctx, b.org, "", c.run.RunID)
		if err != nil || len(ended) != 1 {
			t.Fatalf("%s: %+v, %v", name, ended, err)
		}
		var result domain.Run
		if err := json.Unmarshal(resultFor(run), &result); err != nil {
			t.Fatal(err)
		}
		if deref(result.Message) != deref(c.want) || (result.Message == nil) != (c.want == nil) {
			t.Errorf("%s: %s", name, resultFor(run))
		}
		list, err := b.s.Runs.ListRuns(ctx, b.org, rundb.RunFilter{}, 20)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			if r.ID == c.run.RunID && deref(r.Message) != deref(c.want) {
				t.Errorf("%s: listed with %q", name, deref(r.Message))
			}
		}
		if c.want == nil {
			history, err := b.s.Sessions.History(ctx, b.org, c.run.SessionRef, c.run.Seq+1, 5)
			if err != nil || (len(history) == 1) != c.kept {
				t.Errorf("%s: the history is %+v, %v", name, history, err)
			}
			continue
		}

		// A second client stores the same text. The text stays in the history.
		if c.stored != nil {
			b.heard(c.run.RunID, domain.Playback{Text: *c.stored})
		}
		session := "b"
		if c.stored == nil {
			session = "a"
		}
		page, err := b.s.Sessions.PageOfSession(ctx, sessiondb.SessionName{
			OrganizationID: b.org, TargetID: b.agent, SessionID: session, Key: contract.Hash(b.org, b.agent, session),
		}, 0, 5, 0)
		if err != nil {
			t.Fatal(err)
		}
		if turn := page.Turns[0]; turn.Answer != nil || deref(turn.Heard) != *c.want {
			t.Errorf("%s: the session shows %+v", name, turn)
		}
		history, err := b.s.Sessions.History(ctx, b.org, c.run.SessionRef, c.run.Seq+1, 5)
		if err != nil {
			t.Fatal(err)
		}
		if len(history) != 1 || history[0].Answer != *c.want {
			t.Errorf("%s: the history is %+v", name, history)
		}
	}
}
