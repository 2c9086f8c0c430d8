package runner

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/workers/internal/llm/scripted"
)

const inputMiB = 1 << 20

// Runs wait for memory in the order of their arrival, with two exceptions. Any run may pass a run
// whose organization has used its share. A run whose organization has no inputs in memory may pass a
// run whose organization has some. No run passes a run whose organization has no inputs in memory.
func TestLargeInputsWaitForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := newInputs()
		var mu sync.Mutex
		entered := map[string]func(){}
		enter := func(name, org string, bytes int) {
			go func() {
				if turn, err := in.enter(t.Context(), org, bytes); err == nil {
					mu.Lock()
					defer mu.Unlock()
					entered[name] = func() { in.leave(turn) }
				}
			}()
			synctest.Wait()
		}
		want := func(when string, names ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if len(entered) != len(names) {
				t.Errorf("%s: %d have room, want %v", when, len(entered), names)
			}
			for _, name := range names {
				if entered[name] == nil {
					t.Errorf("%s: %s has no room", when, name)
				}
			}
		}
		leave := func(name string) {
			mu.Lock()
			gone := entered[name]
			delete(entered, name)
			mu.Unlock()
			gone()
		}
		enter("a1", "a", 7*inputMiB)
		enter("a2", "a", 3*inputMiB)
		want("a has its share", "a1")
		open := []string{"a1"}
		for _, org := range []string{"b", "c", "d", "e", "f", "g", "h", "i"} {
			enter(org+"1", org, inputShare)
			open = append(open, org+"1")
		}
		want("others pass", open...)
		enter("j1", "j", 4*inputMiB)
		enter("j2", "j", 2*inputMiB)
		open = append(open, "j1")
		want("the last quarter is for newcomers", open...)
		enter("k1", "k", 1000*inputMiB) // a large run reserves at most the share of one organization
		enter("l1", "l", inputShare)
		enter("m1", "m", inputShare)
		enter("n1", "n", inputMiB)
		want("nobody passes m", append(open, "k1", "l1")...)
		leave("k1")
		open = append(open, "l1", "m1", "n1")
		want("room for m", open...)
		for _, name := range []string{"b1", "c1", "d1"} {
			leave(name)
		}
		open = slices.DeleteFunc(open, func(name string) bool { return name == "b1" || name == "c1" || name == "d1" })
		want("room for j", append(open, "j2")...)
		leave("a1")
		want("a goes on", append(open[1:], "j2", "a2")...)
		for _, name := range append(open[1:], "j2", "a2") {
			leave(name)
		}
		if in.used != 0 || len(in.byOrg) != 0 || len(in.waiting) != 0 {
			t.Errorf("%d bytes stay used, %v", in.used, in.byOrg)
		}
	})
}

// A run that ends while it waits is removed from the queue.
func TestACancelledWaitFreesItsPosition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := newInputs()
		for n := range inputBytes/inputShare - 1 {
			if _, err := in.enter(t.Context(), strconv.Itoa(n), inputShare); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := in.enter(t.Context(), "b", inputShare/2); err != nil {
			t.Fatal(err)
		}
		cause := errors.New("taken")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended, entered := make(chan error, 1), make(chan struct{})
		go func() {
			_, err := in.enter(ctx, "c", inputShare)
			ended <- err
		}()
		synctest.Wait()
		go func() {
			if _, err := in.enter(t.Context(), "d", inputMiB); err == nil {
				close(entered)
			}
		}()
		synctest.Wait()
		cancel(cause)
		if err := <-ended; !errors.Is(err, cause) {
			t.Errorf("the cancelled wait = %v", err)
		}
		<-entered
	})
}

// If a claim does not contain the run's input, the attempt reads the input. The memory is released
// when the attempt ends.
func TestALargeInputIsReadByTheAttempt(t *testing.T) {
	t.Parallel()
	s := &testEnv{model: scripted.New("stage/first", scripted.Call{Deltas: []string{"Read."}}), input: []byte(`{"message":"a large one"}`)}
	s.attempt(t, executiondb.Claimed{Attempts: 1, LargeInput: 300 << 10, RawInput: []byte{}})
	if len(s.outcomes) != 1 || s.outcomes[0].Run.Status != domain.RunCompleted {
		t.Fatalf("results %+v", s.outcomes)
	}
	if asked := s.model.Requests()[0]; asked.Messages[len(asked.Messages)-1].Text != "a large one" {
		t.Errorf("the model received %+v", asked.Messages)
	}
}

// TestTheSchemaOfARequestTakesPrecedence checks whether an answer must match the request's schema
// or the agent's.
func TestTheSchemaOfARequestTakesPrecedence(t *testing.T) {
	t.Parallel()
	own, asked := domain.JSONSchema(`{"type":"object"}`), domain.JSONSchema(`{"type":"array"}`)
	for name, c := range map[string]struct {
		agent  domain.JSONSchema
		output *domain.OutputContract
		want   string
	}{
		"neither":           {},
		"the agent's":       {agent: own, want: string(own)},
		"the request's":     {output: &domain.OutputContract{Schema: asked}, want: string(asked)},
		"both":              {agent: own, output: &domain.OutputContract{Schema: asked}, want: string(asked)},
		"text, in spite of": {agent: own, output: &domain.OutputContract{}},
	} {
		var in domain.Input
		var cfg domain.Config
		in.Output, cfg.Answer.OutputSchema = c.output, c.agent
		contract, err := contractFor(in, cfg)
		if err != nil || (contract != nil) != (c.want != "") || contract != nil && string(contract.Raw) != c.want {
			t.Errorf("%s: %+v, %v, want %s", name, contract, err, c.want)
		}
	}
}
