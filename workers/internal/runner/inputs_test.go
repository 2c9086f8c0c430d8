package runner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/workers/internal/llm/scripted"
)

const inputMiB = 1 << 20

// Inputs wait for room in their order. An organization that has its share lets others pass, and nobody passes a run that waits for room alone.
func TestLargeInputsWaitForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := newInputs()
		entered := map[string]func(){}
		enter := func(name, org string, bytes int) {
			go func() {
				if leave, err := in.enter(t.Context(), org, bytes); err == nil {
					entered[name] = leave
				}
			}()
			synctest.Wait()
		}
		want := func(when string, names ...string) {
			t.Helper()
			synctest.Wait()
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
			entered[name]()
			delete(entered, name)
		}
		enter("a1", "a", 30*inputMiB)
		enter("a2", "a", 3*inputMiB)
		want("a has its share", "a1")
		enter("b1", "b", 20*inputMiB)
		want("b passes", "a1", "b1")
		enter("c1", "c", 16*inputMiB)
		enter("d1", "d", inputMiB)
		want("nobody passes c", "a1", "b1")
		leave("b1")
		want("room for c", "a1", "c1", "d1")
		leave("a1")
		want("a goes on", "a2", "c1", "d1")
		enter("e1", "e", 1000*inputMiB) // has a share, however large it is
		want("too large a one", "a2", "c1", "d1", "e1")
		for _, name := range []string{"a2", "c1", "d1", "e1"} {
			leave(name)
		}
		if in.used != 0 || len(in.of) != 0 || len(in.waiting) != 0 {
			t.Errorf("%d bytes stay used, %v", in.used, in.of)
		}
	})
}

// A run that ends while it waits gives its place in the queue to the next.
func TestAnInputThatIsNoLongerWaitedForLetsOthersIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := newInputs()
		first, err := in.enter(t.Context(), "a", inputShare)
		if err != nil {
			t.Fatal(err)
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
			t.Errorf("it ended with %v", err)
		}
		<-entered
		first()
	})
}

// A run that is claimed without its input reads it, and gives its room back.
func TestALargeInputIsReadByTheAttempt(t *testing.T) {
	t.Parallel()
	s := &stage{model: scripted.New("stage/first", scripted.Call{Deltas: []string{"Read."}}), input: []byte(`{"message":"a large one"}`)}
	s.attempt(t, executiondb.Claimed{Attempts: 1, LargeInput: 300 << 10, RawInput: []byte{}})
	if len(s.endings) != 1 || s.endings[0].Run.Status != domain.RunCompleted {
		t.Fatalf("the run ended as %+v", s.endings)
	}
	if asked := s.model.Requests()[0]; asked.Messages[len(asked.Messages)-1].Text != "a large one" {
		t.Errorf("the model was asked %+v", asked.Messages)
	}
}
