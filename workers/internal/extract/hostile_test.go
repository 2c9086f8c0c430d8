//go:build linux

package extract

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"parley/workers/internal/document"
)

func TestAReaderThatWasTakenOverIsBelievedNothing(t *testing.T) {
	t.Parallel()
	quick := Limits{Wall: 3 * time.Second}
	small := Limits{Text: 1 << 20, Blocks: 5000}
	for name, c := range map[string]struct {
		want    document.Code
		limits  Limits
		message string
		retry   bool
	}{
		"says nothing":         {want: document.LimitReached, limits: quick, message: "more time"},
		"hangs after hello":    {want: document.LimitReached, limits: quick, message: "more time"},
		"ends at once":         {want: document.Internal, retry: true},
		"is another version":   {want: document.Internal, retry: true},
		"says damaged":         {want: document.Damaged, message: "It is."},
		"endless blocks":       {want: document.TooLarge, limits: small},
		"endless small blocks": {want: document.TooLarge, limits: small},
		"takes memory":         {want: document.LimitReached, limits: Limits{Memory: 128 << 20}, message: "memory"},
		"takes time":           {want: document.LimitReached, limits: Limits{CPU: time.Second, Wall: 2 * time.Minute}, message: "CPU time"},
		"takes room":           {want: document.LimitReached, limits: Limits{Files: 32 << 20}, message: "space for files"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failure := fails(t, open(t, Config{}), []byte(spell+name), c.limits)
			if failure.Code != c.want || failure.Retry != c.retry || !strings.Contains(failure.Message, c.message) {
				t.Errorf("got %+v", failure)
			}
		})
	}
	others := []string{
		"ends after hello", "crashes", "no json", "two in a line", "unknown field", "nothing in it", "two at once", "no utf-8",
		"control", "override", "empty", "no kind", "level 9", "level of none", "head of none", "box without page", "box inside out",
		"box of nowhere", "page -1", "page 4 of 3", "pages twice", "no pages", "pages back", "page after all", "done twice", "block of done",
		"end of nothing", "end without type", "end with fewer", "end with controls", "a hundred notes", "code of another", "long message",
		"long block", "endless line",
	}
	e := open(t, Config{Report: func(error) {}})
	for _, name := range others {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failure := fails(t, e, []byte(spell+name), Limits{})
			if failure.Code != document.Damaged || failure.Retry || failure.Message != "The document could not be read: its reader failed." {
				t.Errorf("got %+v", failure)
			}
		})
	}
}

func TestReportsSayNothingOfADocument(t *testing.T) {
	t.Parallel()
	var canaries []string
	for name := range spells {
		if strings.HasPrefix(name, "canary") {
			canaries = append(canaries, name)
		}
	}
	if len(canaries) < 10 {
		t.Fatalf("only %d", len(canaries))
	}
	for _, name := range canaries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var reports, details []string
			e := open(t, Config{
				Report: func(err error) { reports = append(reports, err.Error()) },
				Detail: func(_ error, said string) { details = append(details, said) },
			})
			failure := fails(t, e, []byte(spell+name), Limits{})
			if len(reports) != 1 || len(details) != 1 || strings.Contains(reports[0]+failure.Message, canary) {
				t.Errorf("%q and %v, in detail %q", reports, failure, details)
			}
			if name == "canary on stderr" && !strings.Contains(details[0], canary) {
				t.Errorf("the reader's output is missing: %q", details)
			}
		})
	}
}

func TestNothingLivesAfterTheEnd(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"leaves others", "sleeps on after the end"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			watched := &watchedBackend{Backend: mustShared(t)}
			d, err := read(t.Context(), opened(t, watched, Config{}), []byte(spell+name), Limits{})
			if err != nil || len(d.blocks) != 1 {
				t.Fatalf("%+v, %v", d, err)
			}
			select {
			case <-watched.last.Done():
			default:
				t.Error("something lives")
			}
		})
	}
}

func TestAReaderThatIsKilledHasFailed(t *testing.T) {
	t.Parallel()
	watched := &watchedBackend{Backend: mustShared(t)}
	e := opened(t, watched, Config{Report: func(error) {}})
	_, err := e.Read(t.Context(), Document{Content: []byte(spell + "endless blocks")}, Limits{}, func(document.Event) error {
		watched.last.Kill()
		return nil
	})
	var failure *document.Failure
	if !errors.As(err, &failure) || failure.Code != document.Damaged {
		t.Errorf("got %v", err)
	}
}

func TestTheListenersErrorEndsTheReading(t *testing.T) {
	t.Parallel()
	enough := errors.New("enough")
	watched := &watchedBackend{Backend: mustShared(t)}
	e := opened(t, watched, Config{})
	_, err := e.Read(t.Context(), Document{Content: []byte(spell + "endless blocks")}, Limits{}, func(document.Event) error { return enough })
	if !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
	<-watched.last.Done()
}

func TestACancelledReadingEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("drained")
	e := open(t, Config{})
	_, err := e.Read(ctx, Document{Content: []byte(spell + "endless blocks")}, Limits{}, func(document.Event) error {
		cancel(why)
		return nil
	})
	if !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	if failure, is := errors.AsType[*document.Failure](err); is {
		t.Errorf("a cancelled reading failed: %v", failure)
	}
	if _, err := read(ctx, e, []byte("text"), Limits{}); !errors.Is(err, why) {
		t.Errorf("a reading that was cancelled before it began: %v", err)
	}
}

func TestAProgramThatWasReplacedIsRunAllTheSame(t *testing.T) {
	t.Parallel()
	e := open(t, Config{})
	e.program.where = filepath.Join(t.TempDir(), "gone")
	for range 2 {
		if d, err := read(t.Context(), e, []byte("A text that is read."), Limits{}); err != nil || len(d.blocks) != 1 {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	if err := os.WriteFile(e.program.where, []byte("another"), 0o755); err != nil {
		t.Fatal(err)
	}
	if d, err := read(t.Context(), e, []byte("A text that is read."), Limits{}); err != nil || len(d.blocks) != 1 {
		t.Fatalf("%+v, %v", d, err)
	}
}

func TestCopiesOfTheDeadAreRemoved(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dead, err := newFolderIn(parent)
	if err != nil {
		t.Fatal(err)
	}
	living, err := newFolderIn(parent)
	if err != nil {
		t.Fatal(err)
	}
	// Unlock explicitly. Closing the file would not be enough, because a process that a parallel
	// test has started may have inherited the file.
	if err := errors.Join(unix.Flock(int(dead.lock.Fd()), unix.LOCK_UN), dead.lock.Close()); err != nil {
		t.Fatal(err)
	}
	sweep(parent)
	if _, err := os.Stat(dead.path); err == nil {
		t.Error("the copy of a dead process is there still")
	}
	if _, err := os.Stat(living.path); err != nil {
		t.Errorf("the copy of a live process is missing: %v", err)
	}
	if err := living.remove(); err != nil {
		t.Error(err)
	}
}
