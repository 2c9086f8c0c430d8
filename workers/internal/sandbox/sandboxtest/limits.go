//go:build linux

package sandboxtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/shared/testkit"
	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/python"
)

// tightLimits returns the limits of hostile programs.
func tightLimits() sandbox.Limits {
	return sandbox.Limits{
		CPU: time.Second, Wall: 2 * time.Second, Memory: 128 << 20, Processes: 32, Files: 16 << 20, FileCount: 2000, Output: 256 << 10,
	}
}

// limitsFor returns the limits of a program. Unless the program must reach the limit on wall time,
// this limit is high, because the machine may be busy.
func limitsFor(e excess) sandbox.Limits {
	l := tightLimits()
	if !slices.Contains(e.limit, wall) {
		l.Wall = 40 * time.Second
	}
	return l
}

// grace returns the time that a program may take in addition to its limits, for its start, the
// request to stop, and its end. It depends on the speed of honest programs, which shows how busy
// the machine is.
func (s *suite) grace() time.Duration { return 3*time.Second + 4*s.baseline }

// excess is a program that exceeds its limits.
type excess struct {
	name  string
	code  string
	limit []sandbox.Limit // the report must name one of these limits; "" stands for no limit
	// fine means that the program succeeds although it reaches a limit.
	fine bool
	// fatal means that the program may kill the process that reports results, so there may be no
	// outcome.
	fatal bool
	check func(o python.Outcome, l sandbox.Limits) error
	slow  []sandbox.Limit // limits that are also accepted for backends with slow system calls
	// watched contains limits that are also accepted if memory is watched, because not all kinds of
	// memory can be watched.
	watched []sandbox.Limit
	// If brief is true, the program is also run with backends whose sandboxes start slowly.
	brief bool
}

type excessResult struct {
	outcome python.Outcome
	err     error
	took    time.Duration
	left    []process
}

// parallel is the number of programs that run simultaneously.
const parallel = 8

func (s *suite) limits(t *testing.T) { s.exceedAll(t, excesses()) }

func (s *suite) exceedAll(t *testing.T, cases []excess) {
	t.Helper()
	honest := s.python(t, wideLimits())
	hostile := map[time.Duration]*python.Interpreter{}
	for _, e := range []excess{{limit: limits(wall)}, {limit: limits(cpu)}} {
		hostile[limitsFor(e).Wall] = s.python(t, limitsFor(e))
	}
	if s.brief {
		n := len(cases)
		cases = slices.DeleteFunc(cases, func(e excess) bool { return !e.brief })
		t.Logf("only %d of %d programs are run with %s, because its sandboxes start slowly", len(cases), n, s.backend.Name())
	} else if testing.Short() {
		n := len(cases)
		cases = sampled(cases, testkit.Seed(t))
		t.Logf("NOT TESTED with -short: %d of %d programs that exceed their limits", n-len(cases), n)
	}

	stop := make(chan struct{})
	answers := make(chan error, 1)
	go func() { answers <- s.neighbour(t.Context(), honest, stop) }()
	all := make([]excessResult, len(cases))
	each(parallel, len(cases), func(i int) { all[i] = s.exceed(t.Context(), hostile[limitsFor(cases[i]).Wall], cases[i]) })

	close(stop)
	if err := <-answers; err != nil {
		t.Errorf("a concurrent honest program was affected: %v", err)
	}

	for i, e := range cases {
		t.Run(e.name, func(t *testing.T) { s.verify(t, e, all[i]) })
	}
}

// sampled returns all programs with the field brief, and a half of the others. The seed determines
// which.
func sampled(cases []excess, seed uint64) []excess {
	var others []string
	for _, e := range cases {
		if !e.brief {
			others = append(others, e.name)
		}
	}

	var omitted []string
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // not a secret
	for _, i := range random.Perm(len(others))[:len(others)/2] {
		omitted = append(omitted, others[i])
	}
	return slices.DeleteFunc(slices.Clone(cases), func(e excess) bool { return slices.Contains(omitted, e.name) })
}

// measure returns the duration of an empty program.
func (s *suite) measure(t *testing.T) time.Duration {
	t.Helper()
	in := s.python(t, wideLimits())
	begin := time.Now()
	run(t, in, python.Program{Code: "pass"})
	return time.Since(begin)
}

// honestTook records the duration of an honest program, which shows how busy the machine is.
func (s *suite) honestTook(took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.baseline = max(s.baseline, took)
}

// each calls the function do with the numbers from 0 to n-1. At most parallel calls run
// simultaneously.
func each(parallel, n int, do func(int)) {
	next := make(chan int)
	var all sync.WaitGroup
	for range parallel {
		all.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}

// exceed runs a program and searches for processes that the program has left.
func (s *suite) exceed(ctx context.Context, in *python.Interpreter, e excess) excessResult {
	mark := newMark()
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	var r excessResult
	begin := time.Now()
	code := strings.ReplaceAll(nameProcess(mark)+exceedHelpers+e.code+"\n", "MARK", mark)
	r.outcome, r.err = begun(ctx, in, python.Program{Code: code})
	r.took = time.Since(begin)
	r.left = gone(ctx, func() []process { return marked(mark) })
	return r
}

func (s *suite) verify(t *testing.T, e excess, r excessResult) {
	t.Helper()
	l, o := limitsFor(e), r.outcome
	t.Log(r)
	if maximum := l.Wall + s.grace(); r.took > maximum {
		t.Errorf("the program took %s, want at most %s", r.took, maximum)
	}
	if len(r.left) > 0 {
		t.Errorf("processes still alive %s after the end: %v", goneTimeout, r.left)
	}

	if len(o.Stdout)+len(o.Stderr) > int(l.Output) {
		t.Errorf("too much output was kept: %d bytes", len(o.Stdout)+len(o.Stderr))
	}
	if strings.Contains(o.Stdout, unlimitedSign) {
		t.Error("the program was not stopped by its limit")
	}

	if e.fatal && r.err != nil {
		return
	}
	if r.err != nil {
		t.Fatalf("running the program: %v", r.err)
	}

	allowed := s.allowed(e, o, l)
	if !slices.Contains(allowed, o.Limit) {
		t.Errorf("limit = %q, want one of %q", o.Limit, allowed)
	}
	if o.Failed() == e.fine {
		t.Errorf("failed: %v", o.Failed())
	}
	if e.check != nil {
		if err := e.check(o, l); err != nil {
			t.Error(err)
		}
	}
}

// allowed returns the limits that are accepted as the cause of a program's end.
func (s *suite) allowed(e excess, o python.Outcome, l sandbox.Limits) []sandbox.Limit {
	allowed := slices.Clone(e.limit)
	if s.brief { // slow system calls may reach other limits earlier
		allowed = append(allowed, e.slow...)
	}
	if s.watched {
		allowed = append(allowed, e.watched...)
	}
	if slices.Contains(e.limit, cpu) && o.CPU < l.CPU { // on a busy machine, the program got less processor time than its limit
		allowed = append(allowed, wall)
	}
	return allowed
}

func (r excessResult) String() string {
	o := r.outcome
	return fmt.Sprintf(
		"limit %q, exit %d, took %s, CPU time %s, error %v, %d bytes printed, %.80q, %.80q, ...%s",
		o.Limit, o.ExitCode, r.took, o.CPU, r.err, o.Written, o.Stdout, o.Stderr, o.Traceback[max(0, len(o.Traceback)-120):],
	)
}

// begun runs a program. It retries if the sandbox was lost before the program began, which may
// happen on a busy machine.
func begun(ctx context.Context, in *python.Interpreter, p python.Program) (o python.Outcome, err error) {
	for range 3 {
		o, err = in.Run(ctx, p)
		lost := err != nil && strings.Contains(err.Error(), "the sandbox was lost before the program started")
		if !lost || ctx.Err() != nil {
			return o, err
		}
	}
	return o, err
}

// neighbour runs honest programs until stop is closed. It returns an error if a program has the
// wrong result.
func (s *suite) neighbour(ctx context.Context, in *python.Interpreter, stop <-chan struct{}) error {
	for n := int64(0); ; n++ {
		a, b := rand.Int64N(1000), rand.Int64N(100_000) //nolint:gosec // not a secret
		code := fmt.Sprintf("open('kept', 'w').write('%d')\nprint(sum(i * %d for i in range(%d)) + int(open('kept').read()))", a, a, b)
		ctx, cancel := context.WithTimeout(ctx, runTimeout)
		begin := time.Now()
		o, err := begun(ctx, in, python.Program{Code: code})
		cancel()
		s.honestTook(time.Since(begin))
		if want := fmt.Sprintln(a*b*(b-1)/2 + a); err != nil || o.Failed() || o.Stdout != want {
			return fmt.Errorf("program %d: %w, %+v, want %q", n, err, o, want)
		}
		select {
		case <-stop:
			return nil
		default:
		}
	}
}
