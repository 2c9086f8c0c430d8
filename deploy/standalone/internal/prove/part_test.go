package prove

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/shared/store/pgserver"
)

// fakeInstance is an instance that ends when Kill is called or the test closes the channel done.
type fakeInstance struct {
	done  chan struct{}
	ended bool // whether End was called
}

func (f *fakeInstance) Done() <-chan struct{} { return f.done }

func (f *fakeInstance) Kill() error {
	close(f.done)
	return nil
}

func (f *fakeInstance) End()        { f.ended = true }
func (f *fakeInstance) Why() string { return "exit status 2: panic" }

func TestPartComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lives []*fakeInstance
		p := newPart(kindWorker, "worker 1", func(context.Context) (instance, error) {
			f := &fakeInstance{done: make(chan struct{})}
			lives = append(lives, f)
			return f, nil
		})
		ctx, cancel := context.WithCancelCause(t.Context())
		c := partSet{fail: cancel}
		if err := c.addAndWait(ctx, p); err != nil {
			t.Fatal(err)
		}
		began, seen := time.Now(), false
		if err := p.kill(ctx, time.Second, func() { seen = len(lives) == 1 }); err != nil || !seen {
			t.Fatalf("kill = %v, before called = %t; want nil, true", err, seen)
		}
		synctest.Wait()
		if _, err := p.await(ctx); err != nil || len(lives) != 2 || time.Since(began) != time.Second {
			t.Fatalf("%d runs after %s: %v", len(lives), time.Since(began), err)
		}
		if all := p.unexpectedEnds(); len(all) != 0 {
			t.Fatalf("a kill is recorded as an unexpected end: %v", all)
		}
		close(lives[1].done) // as after a crash
		synctest.Wait()
		if _, err := p.await(ctx); err != nil || len(lives) != 3 {
			t.Fatalf("%d runs of the process, error %v", len(lives), err)
		}
		if all := p.unexpectedEnds(); len(all) != 1 || !strings.Contains(all[0], "worker 1 exited unexpectedly: exit status 2: panic") {
			t.Fatalf("reported: %v", all)
		}
		cancel(nil)
		c.wg.Wait()
		if !lives[2].ended || lives[1].ended {
			t.Fatal("End was not called exactly on the last instance")
		}
	})
}

func TestPartThatDoesNotStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err   error
		tries int
	}{
		"fails":         {errors.New("exit status 1: no"), maxFailedStarts},
		"not installed": {pgserver.ErrNotInstalled, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				tries := 0
				p := newPart(kindPostgres, kindPostgres, func(context.Context) (instance, error) {
					tries++
					return nil, c.err
				})
				partSet := partSet{fail: cancel}
				if err := partSet.addAndWait(ctx, p); !errors.Is(err, c.err) || tries != c.tries {
					t.Fatalf("error after %d tries = %v", tries, err)
				}
				partSet.wg.Wait()
			})
		})
	}
}

func TestUnknownPart(t *testing.T) {
	t.Parallel()
	if _, err := (&partSet{}).of("worker 9"); err == nil {
		t.Fatal("found a part that does not exist")
	}
}
