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

// defaultStopTimeout is longer than the 25 s in which components may complete their current work.
const defaultStopTimeout = 30 * time.Second

// After StopTimeout, all remaining components are cancelled. lastGrace is the time that they then
// get to return.
const lastGrace = time.Second

// Group is a set of named components that run and stop together. The zero value is ready.
type Group struct {
	// StopTimeout is the time limit for stopping all components together. Zero means 30 s.
	StopTimeout time.Duration

	members []*member
}

// member is a component of a Group. The field err may be read once done is closed.
type member struct {
	name   string
	run    func(context.Context) error
	cancel context.CancelFunc
	done   chan struct{} // closed after err is set
	err    error
}

// Add appends a component. The function run must block until its context ends, and then return nil
// or the context's error. Add must not be called after Run.
func (g *Group) Add(name string, run func(context.Context) error) {
	g.members = append(g.members, &member{name: name, run: run, done: make(chan struct{})})
}

// Run starts all components, waits until ctx or one of the components ends, and stops them in
// reverse order. It returns the components' errors joined, each with the name of its component, or
// nil after a clean stop. A Group can run only once.
func (g *Group) Run(ctx context.Context) error {
	// The channel has room for all components, so that no component blocks when it ends.
	ended := make(chan *member, len(g.members))
	for _, m := range g.members {
		m.start(context.WithoutCancel(ctx), ended)
	}

	var errs []error
	select {
	case <-ctx.Done():
	case first := <-ended:
		// The error of the component that ended first is the first in the list.
		if err := first.failure(); err == nil {
			errs = append(errs, fmt.Errorf("component %q: %w", first.name, ErrEnded))
		} else {
			errs = append(errs, err)
			first.err = nil
		}
	}

	// The other components are stopped in any case, even if the context has not ended.
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

// start runs the component in a goroutine. When the component returns, the goroutine sends it to
// the channel named ended.
func (m *member) start(ctx context.Context, ended chan<- *member) {
	// Each component has its own context, so that the group can stop one component after another.
	ctx, m.cancel = context.WithCancel(ctx)
	go func() {
		m.err = call(ctx, m.run)

		// A component that was stopped may return the context's error.
		if ctx.Err() != nil && errors.Is(m.err, context.Canceled) {
			m.err = nil
		}
		close(m.done)
		ended <- m
	}()
}

// call calls the function run and converts a panic of run to an error. A panic in a goroutine that
// run started cannot be caught and ends the process.
func call(ctx context.Context, run func(context.Context) error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return run(ctx)
}

// stop cancels the components from the last to the first. It cancels each component after the
// previously cancelled component has returned.
func (g *Group) stop() error {
	timeout := g.StopTimeout
	if timeout <= 0 {
		timeout = defaultStopTimeout
	}

	// One timer bounds all components together.
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

// abandon cancels all components and returns an error with the names of the components that do not
// return in time.
func (g *Group) abandon(timeout time.Duration) error {
	for _, m := range g.members {
		m.cancel()
	}

	// All components stop simultaneously now and share one grace period.
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
			grace.Reset(0) // the remaining components get no further time
			stuck = append(stuck, m.name)
		}
	}

	if len(stuck) == 0 {
		return fmt.Errorf("stopping took longer than %s", timeout)
	}

	return fmt.Errorf("stopping took longer than %s, still running: %s", timeout, strings.Join(stuck, ", "))
}

// failure returns the component's error with its name. It returns nil while the component runs and
// after a clean end.
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

// Hold returns the run function of a component that has already started. The function waits until
// its context ends or the channel ended is closed. It then calls stop with a new context that has
// the timeout.
func Hold(ended <-chan struct{}, stop func(context.Context) error, timeout time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		var early error
		select {
		case <-ctx.Done():
		case <-ended:
			early = ErrEnded
		}

		// The context of the component may have ended, but the function stop needs a context that
		// has not ended.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		return errors.Join(early, stop(ctx))
	}
}
