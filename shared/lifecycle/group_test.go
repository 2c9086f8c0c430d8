package lifecycle

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// record is a list of events in the order in which they occurred.
type record struct {
	mu   sync.Mutex
	seen []string
}

func (r *record) add(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, what)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.seen, " ")
}

// until returns a component that runs until its context ends. The component then records the
// argument name and returns the argument err.
func (r *record) until(name string, err error) func(context.Context) error {
	return func(ctx context.Context) error {
		<-ctx.Done()
		r.add(name)
		return err
	}
}

func TestGroupStopsInReverseOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen record
		var group Group
		for _, name := range []string{"postgres", "nats", "worker", "ingress"} {
			group.Add(name, seen.until(name, context.Canceled))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := group.Run(ctx); err != nil {
			t.Fatalf("clean stop: %v", err)
		}
		if got, want := seen.String(), "ingress worker nats postgres"; got != want {
			t.Fatalf("stopped %s, want %s", got, want)
		}
	})
}

func TestGroupEndsWithItsFirstComponent(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk full")
	tests := []struct {
		name string
		run  func(context.Context) error
		is   error
		says string
	}{
		{"fails", func(context.Context) error { return broken }, broken, `component "odd": disk full`},
		{"returns", func(context.Context) error { return nil }, ErrEnded, `component "odd": exited unexpectedly`},
		{"gives up on a context of its own", func(context.Context) error { return context.Canceled }, context.Canceled, `component "odd"`},
		{"panics", func(context.Context) error { panic("no such row") }, nil, `component "odd": panicked: no such row`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var seen record
			var group Group
			group.Add("first", seen.until("first", nil))
			group.Add("odd", test.run)
			group.Add("last", seen.until("last", errors.New("left over")))
			err := group.Run(t.Context())
			if test.is != nil && !errors.Is(err, test.is) {
				t.Fatalf("error %v is not %v", err, test.is)
			}
			text := err.Error()
			if !strings.HasPrefix(text, test.says) || !strings.Contains(text, `component "last": left over`) {
				t.Fatalf("error %q", text)
			}
			if strings.Count(text, "odd") != 1 {
				t.Fatalf("named more than once: %q", text)
			}
			if got := seen.String(); got != "last first" {
				t.Fatalf("stopped %q", got)
			}
		})
	}
}

func TestGroupKeepsThePanicsStack(t *testing.T) {
	t.Parallel()
	var group Group
	group.Add("odd", func(context.Context) error { panic("here") })
	var caught *PanicError
	if err := group.Run(t.Context()); !errors.As(err, &caught) || !strings.Contains(string(caught.Stack), "group_test.go") {
		t.Fatalf("no stack in %v", err)
	}
}

func TestGroupBoundsItsStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		var seen record
		group := Group{StopTimeout: 10 * time.Second}
		group.Add("postgres", seen.until("postgres", nil))
		group.Add("deaf", func(context.Context) error { <-release; return nil })
		group.Add("mute", func(context.Context) error { <-release; return nil })
		group.Add("ingress", seen.until("ingress", nil))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		err := group.Run(ctx)
		if err == nil || !strings.Contains(err.Error(), "still running: deaf, mute") {
			t.Fatalf("error %v", err)
		}
		if took := time.Since(began); took != 11*time.Second {
			t.Fatalf("took %s", took)
		}
		if got := seen.String(); got != "ingress postgres" {
			t.Fatalf("stopped %q", got)
		}
	})
}

func TestHold(t *testing.T) {
	t.Parallel()
	stopped := errors.New("stopped by force")
	stop := func(ctx context.Context) error {
		if _, bounded := ctx.Deadline(); !bounded || ctx.Err() != nil {
			return errors.New("stop got no time")
		}
		return stopped
	}
	t.Run("asked", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := Hold(make(chan struct{}), stop, time.Second)(ctx)
		if !errors.Is(err, stopped) || errors.Is(err, ErrEnded) {
			t.Fatalf("error %v", err)
		}
	})
	t.Run("ended", func(t *testing.T) {
		t.Parallel()
		ended := make(chan struct{})
		close(ended)
		err := Hold(ended, stop, time.Second)(t.Context())
		if !errors.Is(err, ErrEnded) || !errors.Is(err, stopped) {
			t.Fatalf("error %v", err)
		}
	})
}
