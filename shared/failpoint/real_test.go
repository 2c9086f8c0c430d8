//go:build failpoints

package failpoint

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestWhatIsArmedIsRead(t *testing.T) {
	points, err := parse("claim.after=kill,turn.before=stop@2,done.after=kill:100ms,publishjob.after=hold:/tmp/go,finish.after=delay:1s@3")
	if err != nil || len(points) != 5 {
		t.Fatal(points, err)
	}
	if a := points[TurnBefore]; a.action != "stop" || a.left != 2 || a.due() || !a.due() || a.due() {
		t.Errorf("%+v is not due the second time alone", a)
	}
	if a := points[PublishJobAfter]; a.action != "hold" || a.path != "/tmp/go" || !a.due() {
		t.Errorf("%+v", a)
	}
	if a := points[FinishAfter]; a.pause != time.Second || a.left != 3 {
		t.Errorf("%+v", a)
	}
	for _, wrong := range []string{"claim.after", "claim.after=die", "claim.after=hold", "claim.after=kill@x", "claim.after=delay:soon"} {
		if _, err := parse(wrong); err == nil {
			t.Errorf("%s was taken", wrong)
		}
	}
}

func TestHoldWaitsForItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "go")
	table = func() map[Point]*armed { return map[Point]*armed{ClaimAfter: {action: "hold", path: path, left: 1}} }
	passed := make(chan struct{})
	go func() { Here(ClaimAfter); close(passed) }()
	select {
	case <-passed:
		t.Fatal("Here did not wait for the file")
	case <-time.After(50 * time.Millisecond):
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	<-passed
	Here(ClaimAfter) // a second call has no effect
}
