package voice

import (
	"testing"
	"time"

	"parley/shared/contract"
)

func TestPace(t *testing.T) {
	t.Parallel()
	var p pace
	now := time.Now()
	for n := range 40 { // 40 frames of 100 ms can be sent immediately
		if p.wait(now, maxFrame) != 0 {
			t.Fatalf("frame %d waits", n)
		}
		p.sent(now, maxFrame)
	}
	if got := p.wait(now, maxFrame); got != 100*time.Millisecond {
		t.Errorf("the next waits %v", got)
	}
	now = now.Add(time.Second)
	if p.ahead(now) != 3*rate || p.wait(now, maxFrame) != 0 {
		t.Errorf("%d ahead a second later", p.ahead(now))
	}
	now = now.Add(10 * time.Second) // in this time no audio is sent, so playback pauses
	if p.ahead(now) != 0 {
		t.Errorf("%d ahead", p.ahead(now))
	}
	for range 40 {
		p.sent(now, maxFrame)
	}
	if got := p.wait(now, maxFrame); got != 100*time.Millisecond {
		t.Errorf("after standing still, the next waits %v", got)
	}
}

func TestTape(t *testing.T) {
	t.Parallel()
	tp := tape{start: 100}
	if got := tp.add(100, []byte{1, 1, 2, 2}); len(got) != 4 || tp.end() != 102 {
		t.Errorf("%v, %d", got, tp.end())
	}
	if got := tp.add(101, []byte{2, 2, 3, 3}); len(got) != 2 || got[0] != 3 || tp.end() != 103 {
		t.Errorf("partly known audio: %v, %d", got, tp.end())
	}
	if got := tp.add(90, []byte{9, 9}); got != nil || tp.end() != 103 {
		t.Errorf("known audio: %v, %d", got, tp.end())
	}
	if got := tp.add(105, []byte{6, 6}); len(got) != 6 || got[3] != 0 || got[4] != 6 || tp.end() != 106 {
		t.Errorf("after a gap: %v, %d", got, tp.end())
	}
	if got := tp.copyRange(0, 200); len(got) != 12 || got[0] != 1 || tp.copyRange(106, 300) != nil || tp.copyRange(104, 102) != nil {
		t.Errorf("%v", got)
	}
	tp.forget(102)
	if tp.start != 102 || tp.end() != 106 || len(tp.copyRange(0, 103)) != 2 {
		t.Errorf("%d to %d", tp.start, tp.end())
	}
	tp.forget(50)
	if tp.start != 102 {
		t.Errorf("the tape begins at %d", tp.start)
	}
	if got := tp.add(106+maxGap+1, []byte{7, 7}); len(got) != 2 || tp.start != 106+maxGap+1 {
		t.Errorf("after a gap that is too large: %v, %d", got, tp.start)
	}
}

// TestPositionsAfterGaps: after a gap that is too large to be filled with silence, the positions of
// events still match the audio.
func TestPositionsAfterGaps(t *testing.T) {
	t.Parallel()
	in := newInput(contract.VoiceOpen{Config: contract.VoiceConfig{Detection: &contract.VoiceDetection{Threshold: 0.5}}})
	in.detect(in.tape.add(0, make([]byte, 2*rate)))
	in.detect(in.tape.add(100*rate, make([]byte, 2*rate)))
	if got := in.detector.Heard(); got != in.tape.end() {
		t.Errorf("processed up to %d of %d", got, in.tape.end())
	}
	if in.needs() < 99*rate {
		t.Errorf("needs %d", in.needs())
	}
}
