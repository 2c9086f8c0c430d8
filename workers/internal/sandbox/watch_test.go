package sandbox

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// counted is a box whose usage is returned by a function.
type counted struct {
	began time.Time
	done  chan struct{}
	usage func(since time.Duration) (Usage, error)
}

func (c *counted) Stdin() io.WriteCloser { return nil }
func (c *counted) Stdout() io.Reader     { return nil }
func (c *counted) Kill()                 {}
func (c *counted) Done() <-chan struct{} { return c.done }
func (c *counted) Stderr() string        { return "" }
func (c *counted) Usage() (Usage, error) { return c.usage(time.Since(c.began)) }

func TestWatch(t *testing.T) {
	t.Parallel()
	limits := Limits{CPU: time.Second, Memory: 100, Processes: 5, Files: 100, FileCount: 10}
	for name, c := range map[string]struct {
		usage func(since time.Duration) (Usage, error)
		limit Limit
		after time.Duration
	}{
		"cpu": {func(d time.Duration) (Usage, error) { return Usage{CPU: 5*time.Second + d}, nil }, LimitCPU, 1050 * time.Millisecond},
		"memory": {func(d time.Duration) (Usage, error) {
			return Usage{Memory: int64(d / time.Millisecond)}, nil
		}, LimitMemory, 150 * time.Millisecond},
		"out of memory":   {func(time.Duration) (Usage, error) { return Usage{OutOfMem: true}, nil }, LimitMemory, watchEvery},
		"processes":       {func(time.Duration) (Usage, error) { return Usage{Processes: 6}, nil }, LimitProcesses, watchEvery},
		"files":           {func(time.Duration) (Usage, error) { return Usage{Files: 101}, nil }, LimitFiles, watchEvery},
		"number of files": {func(time.Duration) (Usage, error) { return Usage{FileCount: 11}, nil }, LimitFiles, watchEvery},
		"none":            {func(time.Duration) (Usage, error) { return Usage{Memory: 100, Processes: 5}, nil }, "", 3 * time.Second},
		"unreadable at first": {func(d time.Duration) (Usage, error) {
			if d < time.Second {
				return Usage{Memory: 200}, errors.New("not now")
			}
			return Usage{Memory: 200}, nil
		}, LimitMemory, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				box := &counted{began: time.Now(), done: make(chan struct{}), usage: c.usage}
				limit := Watch(ctx, box, limits, Usage{CPU: 5 * time.Second})
				if after := time.Since(box.began); limit != c.limit || after != c.after {
					t.Errorf("%q after %v", limit, after)
				}
			})
		})
	}
}

func TestWatchEndsWithTheBox(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		box := &counted{began: time.Now(), done: make(chan struct{}), usage: func(time.Duration) (Usage, error) { return Usage{}, nil }}
		time.AfterFunc(time.Second, func() { close(box.done) })
		if limit := Watch(t.Context(), box, Limits{}, Usage{}); limit != "" || time.Since(box.began) != time.Second {
			t.Errorf("%q after %v", limit, time.Since(box.began))
		}
	})
}
