package store_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/queuedb"
)

func (b *testEnv) heard(runID string, heard domain.Playback) {
	b.Helper()
	if err := b.s.Sessions.SavePlayback(b.Context(), b.org, runID, heard); err != nil {
		b.Fatalf("noting what was heard: %v", err)
	}
}

// interruptedRun accepts a message and cancels its run before the first step, like a user who
// interrupts the agent.
func (r *storedEnv) interruptedRun(run queuedb.NewRun) string {
	r.Helper()
	runID := r.accept(wideWindow, run)[0].Run.Run.ID
	r.mustClaim(runID)
	if _, ended, err := r.s.Executions.Cancel(r.Context(), r.org, "", runID); err != nil || len(ended) != 1 {
		r.Fatalf("cancelled %+v, %v", ended, err)
	}
	return runID
}

func TestASessionContinuesFromThePlayedAnswer(t *testing.T) {
	t.Parallel()
	r := newStoredEnvFor(t)
	ctx := t.Context()
	r.said(r.chat("usr_1", "s", "q1"), "whole")
	half := r.said(r.chat("usr_1", "s", "q2"), "this is a long answer")
	r.heard(half, domain.Playback{Text: "this is", AudioMS: 700})
	r.heard(half, domain.Playback{Text: "this is a long", AudioMS: 900}) // the client reports more exact data
	cut := r.interruptedRun(r.chat("usr_1", "s", "q3"))
	r.heard(cut, domain.Playback{Text: "I was ab\x00out\xff", AudioMS: -1})
	r.interruptedRun(r.chat("usr_1", "s", "q4")) // interrupted before the first text of the answer
	silent := r.interruptedRun(r.chat("usr_1", "s", "q5"))
	r.heard(silent, domain.Playback{})
	mute := r.said(r.chat("usr_1", "s", "q6"), "never heard")
	r.heard(mute, domain.Playback{})
	next := r.mustClaim(r.accept(wideWindow, r.chat("usr_1", "s", "q7"))[0].Run.Run.ID)
	r.heard(next.RunID, domain.Playback{Text: "has not ended", AudioMS: 5})
	history, err := r.s.Sessions.History(ctx, r.org, next.SessionRef, next.Seq+1, 9)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, turn := range history {
		got += fmt.Sprintf("%d %s>%s|", turn.Seq, turn.Message, turn.Answer)
	}
	if want := "1 q1>whole|2 q2>this is a long|3 q3>I was about\uFFFD|4 q4>…|5 q5>…|6 q6>…|"; got != want {
		t.Errorf("history %s\nwant    %s", got, want)
	}
	newest, err := r.s.Sessions.History(ctx, r.org, next.SessionRef, next.Seq, 2)
	if err != nil || len(newest) != 2 || newest[0].Seq != 5 {
		t.Errorf("the newest two: %+v, %v", newest, err)
	}
	_, turns, err := readSession(ctx, r.s, r.named("usr_1", "s"), 0, 9)
	if err != nil {
		t.Fatal(err)
	}
	got = ""
	for _, turn := range turns {
		heard := "-"
		if turn.Heard != nil {
			heard = *turn.Heard
		}
		got += fmt.Sprintf("%d %v>%s|", turn.Seq, turn.Answer != nil, heard)
	}
	if want := "7 false>has not ended|6 true>|5 false>|4 false>|3 false>I was about\uFFFD|2 true>this is a long|1 true>-|"; got != want {
		t.Errorf("read %s\nwant %s", got, want)
	}
	if n := r.number(`SELECT sum(audio_ms) FROM heard`); n != 905 {
		t.Errorf("%d ms", n)
	}
	if run, err := r.s.Runs.RunByID(ctx, r.org, "usr_1", half); err != nil || !strings.Contains(string(resultFor(run)), "this is a long answer") {
		t.Errorf("the run itself changed: %s, %v", resultFor(run), err)
	}
}

// If the client reports that the whole answer was played, the record of the interruption is
// removed.
func TestAnAnswerThatWasPlayedWholeWasNotInterrupted(t *testing.T) {
	t.Parallel()
	r := newStoredEnvFor(t)
	whole := r.said(r.chat("usr_1", "s", "q1"), "this is a long answer\n")
	r.heard(whole, domain.Playback{Text: "this is", AudioMS: 700})
	r.heard(whole, domain.Playback{Text: "this is a long answer", AudioMS: 2000})
	again := r.said(r.chat("usr_1", "s", "q2"), "and another")
	r.heard(again, domain.Playback{Text: "and another", AudioMS: 900})
	cut := r.interruptedRun(r.chat("usr_1", "s", "q3"))
	r.heard(cut, domain.Playback{Text: "this was all there was", AudioMS: 900})
	_, turns, err := readSession(t.Context(), r.s, r.named("usr_1", "s"), 0, 9)
	if err != nil || len(turns) != 3 {
		t.Fatalf("%d turns, %v", len(turns), err)
	}
	if turns[0].Heard == nil || turns[1].Heard != nil || turns[2].Heard != nil {
		t.Errorf("read %+v", turns)
	}
	r.heard(again, domain.Playback{Text: "and", AudioMS: 300})
	if n := r.number(`SELECT count(*) FROM heard`); n != 2 {
		t.Errorf("%d notes", n)
	}
}

func TestPlaybackIsOfLivingRunsOnly(t *testing.T) {
	t.Parallel()
	r := newStoredEnvFor(t)
	refused := func(what, org, runID string) {
		t.Helper()
		err := r.s.Sessions.SavePlayback(t.Context(), org, runID, domain.Playback{Text: canary})
		if apierr.CodeFor(err) != apierr.NotFound {
			t.Errorf("%s: %v", what, err)
		}
	}
	said := r.said(r.chat("usr_1", "s", "q"), "a")
	refused("a run that does not exist", r.org, "run_x")
	refused("another organization's", "org_other", said)
	r.raw(`UPDATE runs SET expires_at = clock_timestamp() - interval '1 s' WHERE id = $1`, said)
	refused("one that has expired", r.org, said)
	r.raw(`UPDATE runs SET expires_at = NULL WHERE id = $1`, said)
	r.erase(r.named("usr_1", "s"))
	refused("one that was erased", r.org, said)
	if got := r.leaks(); got != "" {
		t.Errorf("left: %s", got)
	}
}

// The playback record is removed together with the run's answer. This also holds if the previous
// release of the service removes the answer, and if the run has no steps.
func TestPlaybackIsRemovedWithItsRun(t *testing.T) {
	t.Parallel()
	r := newStoredEnv(t)
	ctx := t.Context()
	for what, remove := range map[string]func(session, runID string){
		"erasing": func(session, _ string) { r.erase(r.named("usr_1", session)) },
		"deleting a document": func(_, runID string) {
			doc := r.ready(runID)
			r.raw(`INSERT INTO run_documents (run_id, org_id, document_id) VALUES ($1, $2, $3)`, runID, r.org, doc)
			r.deleteDocument(doc)
		},
		"retention": func(_, runID string) {
			r.raw(`UPDATE runs SET expires_at = now(), sweep_after = now() WHERE id = $1`, runID) //nolint:contextcheck // the test's own
			if _, err := r.s.Sessions.DeleteExpired(ctx, 100); err != nil {
				t.Fatal(err)
			}
		},
		"retention by the release before": func(_, runID string) { r.raw(`DELETE FROM runs WHERE id = $1`, runID) },
		"erasing by the release before": func(_, runID string) {
			r.raw(`UPDATE runs SET input = '{}', result = NULL, answer = NULL, session_id = '' WHERE id = $1`, runID)
		},
	} {
		for _, cut := range []bool{false, true} {
			session := strings.ReplaceAll(what, " ", "")
			run := r.chat("usr_1", session, "q")
			var runID string
			if cut {
				runID = r.interruptedRun(run)
			} else {
				runID = r.said(run, "a")
			}
			r.heard(runID, domain.Playback{Text: canary, AudioMS: 1})
			if got := r.leaks(); got != "heard:1" {
				t.Fatalf("%s, %v: before: %s", what, cut, got)
			}
			remove(session, runID)
			if got := r.leaks(); got != "" || r.number(`SELECT count(*) FROM heard`) != 0 {
				t.Errorf("%s, %v: left %s", what, cut, got)
				r.raw(`DELETE FROM heard`)
			}
			if what == "erasing by the release before" {
				r.raw(`DELETE FROM runs WHERE id = $1`, runID)
			}
		}
	}
	kept := r.said(r.chat("usr_1", "kept", "q"), "a")
	r.heard(kept, domain.Playback{Text: "stays"})
	r.raw(`UPDATE runs SET input = input, expires_at = NULL WHERE id = $1`, kept) // changes to other columns keep the playback record
	if n := r.number(`SELECT count(*) FROM heard`); n != 1 {
		t.Errorf("%d rows", n)
	}
}

// If a playback record is saved while its session is erased, the record is either erased together
// with the session, or not saved.
func TestErasingDuringPlayback(t *testing.T) {
	t.Parallel()
	r := newStoredEnvFor(t)
	for n := range repetitions(t, 15, 40) {
		run := r.said(r.chat("usr_1", "s", "q"), "a")
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for range rand.IntN(4) + 1 {
					err := r.s.Sessions.SavePlayback(t.Context(), r.org, run, domain.Playback{Text: canary})
					if err != nil && apierr.CodeFor(err) != apierr.NotFound {
						t.Errorf("%d: %v", n, err)
					}
				}
			})
		}
		wg.Go(func() { r.erase(r.named("usr_1", "s")) })
		wg.Wait()
		if got := r.leaks(); got != "" {
			t.Fatalf("%d: left %s", n, got)
		}
	}
}
