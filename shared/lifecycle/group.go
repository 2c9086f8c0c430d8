package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// defaultStopTimeout leaves a drain of 25 s its time.
const defaultStopTimeout = 30 * time.Second

// lastGrace is how long components that were all cancelled at once, because the stop
// time was over, may still take.
const lastGrace = time.Second

// Group is a set of named components that live and end together; the zero value is ready.
type Group struct {
	// StopTimeout bounds the stop of all components together; 30 s when zero.
	StopTimeout time.Duration

	members []*member
}

type member struct {
	name   string
	run    func(context.Context) error
	cancel context.CancelFunc
	done   chan struct{} // closed after err is set
	err    error
}

// Add appends a component; run blocks until its context ends and returns nil or the
// context's error when that is why it ended. Add must not be called after Run.
func (g *Group) Add(name string, run func(context.Context) error) {
	g.members = append(g.members, &member{name: name, run: run, done: make(chan struct{})})
}

// Run starts all components, waits until ctx ends or one of them does, stops them in
// reverse order and returns their errors joined, each with its component's name; nil
// after a clean stop. A Group runs once.
func (g *Group) Run(ctx context.Context) error {
	ended := make(chan *member, len(g.members))
	for _, m := range g.members {
		m.start(context.WithoutCancel(ctx), ended)
	}
	var errs []error
	select {
	case <-ctx.Done():
	case first := <-ended:
		// The one that broke the group is named first, whatever the others say on their way out.
		if err := first.failure(); err == nil {
			errs = append(errs, fmt.Errorf("component %q: %w", first.name, ErrEnded))
		} else {
			errs = append(errs, err)
			first.err = nil
		}
	}
	if err := g.stop(); err != nil {
		errs = append(errs, err)
	}
	for _, m := range g.members {
		if err := m.failure(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (m *member) start(ctx context.Context, ended chan<- *member) {
	ctx, m.cancel = context.WithCancel(ctx)
	go func() {
		m.err = call(ctx, m.run)
		if ctx.Err() != nil && errors.Is(m.err, context.Canceled) {
			m.err = nil
		}
		close(m.done)
		ended <- m
	}()
}

// call turns a panic of run into an error. A panic in a goroutine that run started
// cannot be caught by anyone and ends the process.
func call(ctx context.Context, run func(context.Context) error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return run(ctx)
}

// stop cancels from the last to the first, each after the one before has returned.
func (g *Group) stop() error {
	timeout := g.StopTimeout
	if timeout <= 0 {
		timeout = defaultStopTimeout
	}
	late := time.NewTimer(timeout)
	defer late.Stop()
	for _, m := range slices.Backward(g.members) {
		m.cancel()
		select {
		case <-m.done:
		case <-late.C:
			return g.abandon(timeout)
		}
	}
	return nil
}

// abandon cancels everything at once and names what does not return even then.
func (g *Group) abandon(timeout time.Duration) error {
	for _, m := range g.members {
		m.cancel()
	}
	grace := time.NewTimer(lastGrace)
	defer grace.Stop()
	var stuck []string
	for _, m := range g.members {
		select {
		case <-m.done:
			continue
		default:
		}
		select {
		case <-m.done:
		case <-grace.C:
			grace.Reset(0) // the next ones get no second of their own
			stuck = append(stuck, m.name)
		}
	}
	if len(stuck) == 0 {
		return fmt.Errorf("stopping took longer than %s", timeout)
	}
	return fmt.Errorf("stopping took longer than %s, still running: %s", timeout, strings.Join(stuck, ", "))
}

// failure is the member's error under its name, or nil while it runs or after a clean end.
func (m *member) failure() error {
	select {
	case <-m.done:
	default:
		return nil
	}
	if m.err == nil {
		return nil
	}
	return fmt.Errorf("component %q: %w", m.name, m.err)
}

// Hold is the run function of something that is already started: it waits until its
// context ends or ended is closed, then calls stop with a fresh context of timeout.
func Hold(ended <-chan struct{}, stop func(context.Context) error, timeout time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		var early error
		select {
		case <-ctx.Done():
		case <-ended:
			early = ErrEnded
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		return errors.Join(early, stop(ctx))
	}
}
