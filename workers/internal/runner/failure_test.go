package runner

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/workers/internal/agentloop"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/scripted"
)

// TestBrokenOffAnswersAreGivenUp checks a run whose answers are truncated again and again. The run
// fails after a few attempts, in which each model of the agent is tried. After an outage of the
// provider, however, the run is retried until its deadline.
func TestBrokenOffAnswersAreGivenUp(t *testing.T) {
	t.Parallel()
	five := domain.Config{Model: "stage/a", FallbackModels: []string{"stage/b", "stage/c", "stage/d", "stage/e"}}
	dropped := &domain.ProviderError{Status: 200}
	for name, c := range map[string]struct {
		kind     llm.Kind
		cfg      domain.Config
		provider *domain.ProviderError // nil if the circuit breaker has rejected the call
		attempts int
		failed   executiondb.Failures // result of FailedSinceStep: the earlier attempts
		fails    bool
	}{
		"the first":             {llm.KindTruncated, domain.Config{}, dropped, 1, executiondb.Failures{}, false},
		"the third":             {llm.KindTruncated, domain.Config{}, dropped, 3, executiondb.Failures{All: 2, Refused: 2}, false},
		"the fourth":            {llm.KindTruncated, domain.Config{}, dropped, 4, executiondb.Failures{All: 3, Refused: 3}, true},
		"the fourth of five":    {llm.KindTruncated, five, dropped, 4, executiondb.Failures{All: 3, Refused: 3}, false},
		"the last of five":      {llm.KindTruncated, five, dropped, 5, executiondb.Failures{All: 4, Refused: 4}, true},
		"after progress":        {llm.KindTruncated, domain.Config{}, dropped, 5, executiondb.Failures{}, false},
		"an outage continues":   {llm.KindUnavailable, domain.Config{}, dropped, 4, executiondb.Failures{All: 3, Refused: 3}, false},
		"rejected":              {llm.KindTruncated, domain.Config{}, nil, 6, executiondb.Failures{All: 5, Refused: 1}, false},
		"rejected too often":    {llm.KindTruncated, domain.Config{}, nil, 7, executiondb.Failures{All: 6, Refused: 1}, true},
		"only rejected":         {llm.KindTruncated, domain.Config{}, nil, 6, executiondb.Failures{All: 6}, false}, // a later backoff may exceed the deadline
		"rejected, then broken": {llm.KindTruncated, domain.Config{}, dropped, 5, executiondb.Failures{All: 4, Refused: 1}, false},
	} {
		failure := llm.NewError(c.kind, nil)
		failure.Provider = c.provider
		s := &testEnv{cfg: c.cfg, failed: c.failed, model: scripted.Forever("stage/a", scripted.Call{Deltas: []string{"half"}, Err: failure})}
		s.attempt(t, executiondb.Claimed{Attempts: c.attempts})
		if c.fails != (len(s.outcomes) == 1) || c.fails == (len(s.back) == 1) {
			t.Fatalf("%s: %d results, requeued %v", name, len(s.outcomes), s.back)
		}
		if c.fails && (s.outcomes[0].Run.Status != domain.RunFailed || s.outcomes[0].Run.Error.Code != "model_truncated") {
			t.Errorf("%s: %+v", name, s.outcomes[0].Run)
		}
	}
}

// TestAProviderResponseIsNotInTheResult checks that a provider's response is stored for admins.
// Members can read the run's result and its events, so neither contains the response. The text of
// the response is logged only at the level debug.
func TestAProviderResponseIsNotInTheResult(t *testing.T) {
	t.Parallel()
	refusal := llm.NewError(llm.KindAuth, nil)
	refusal.Provider = &domain.ProviderError{Status: 401, Message: "no such key"}
	var log bytes.Buffer
	s := &testEnv{model: scripted.New("stage/a", scripted.Call{Err: refusal}), log: &log}
	s.attempt(t, executiondb.Claimed{Attempts: 1})
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "no such key") && !strings.Contains(line, `"level":"debug"`) {
			t.Errorf("logged %s", line)
		}
	}
	if !strings.Contains(log.String(), `"level":"warn","provider_status":401`) || !strings.Contains(log.String(), "no such key") {
		t.Errorf("logged %s", log.String())
	}
	if len(s.refused) != 1 || s.refused[0] != *refusal.Provider {
		t.Errorf("stored %+v", s.refused)
	}
	if len(s.outcomes) != 1 || s.outcomes[0].Run.Error.Code != "model_rejected" || s.outcomes[0].Run.Error.Provider != nil {
		t.Errorf("%+v", s.outcomes)
	}
}

// TestFinishReasons checks the finish reason of a run for each stop reason of the model.
func TestFinishReasons(t *testing.T) {
	t.Parallel()
	for want, call := range map[domain.FinishReason]scripted.Call{
		domain.FinishStop:          {Deltas: []string{"ok"}},
		domain.FinishLength:        {Deltas: []string{"ok"}, Stop: llm.StopLength},
		domain.FinishContentFilter: {Deltas: []string{"ok"}, Stop: llm.StopFiltered},
		domain.FinishError:         {Err: llm.NewError(llm.KindInvalid, nil)},
	} {
		s := &testEnv{model: scripted.New("stage/a", call)}
		s.attempt(t, executiondb.Claimed{Attempts: 1, ConfigVersion: 7})
		run := s.outcomes[0].Run
		if run.FinishReason == nil || *run.FinishReason != want || run.AgentVersion == nil || *run.AgentVersion != 7 {
			t.Errorf("%s: %+v", want, run)
		}
	}
}

// TestTextsOfCallersAreNotLogged checks that the log has the code of a failure. The message of a
// failure may quote a caller's text, so the message is logged only at the level debug. The cause of
// a failed dependency is logged.
func TestTextsOfCallersAreNotLogged(t *testing.T) {
	t.Parallel()
	const secret = "Termination of Ada Lovelace"
	for name, c := range map[string]struct {
		err  error
		want string // part of the warning
	}{
		"a coded failure":   {&agentloop.Error{Code: agentloop.CodeOutputInvalid, Message: secret, Mismatches: []domain.OutputMismatch{{Path: "/" + secret, Message: secret}}}, `"code":"output_invalid"`},
		"a failed database": {retryable(errors.New("the database is away")), "the database is away"},
	} {
		var log bytes.Buffer
		s := &testEnv{model: scripted.New("stage/a", scripted.Call{Err: c.err}), log: &log}
		s.attempt(t, executiondb.Claimed{Attempts: 1})
		warned := false
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, `"level":"debug"`) {
				continue
			}
			if strings.Contains(line, secret) {
				t.Errorf("%s: logged %s", name, line)
			}
			warned = warned || strings.Contains(line, "attempt failed") && strings.Contains(line, c.want)
		}
		if !warned {
			t.Errorf("%s: logged %s", name, log.String())
		}
	}
}
