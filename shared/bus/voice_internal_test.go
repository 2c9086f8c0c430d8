package bus

import (
	"testing"

	"github.com/rs/zerolog"

	"parley/shared/contract"
	"parley/shared/testkit"
)

// TestALineOfAFormerConnectionIsLost interrupts and restores the connection between two checks of
// the sessions. A session that was opened before the interruption is then lost.
func TestALineOfAFormerConnectionIsLost(t *testing.T) {
	t.Parallel()
	b, err := Dial(testkit.NATS(t), "test", zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	v := &voiceBoard[contract.VoiceCommand]{nc: b.nc, patience: voiceSilentChecks, wires: map[string]*voiceWire[contract.VoiceCommand]{}}
	before, now := v.wire("peer", nil), v.wire("peer", nil)
	before.reconnects--
	var snapshot []*voiceWire[contract.VoiceCommand]
	v.check(func(w *voiceWire[contract.VoiceCommand]) { snapshot = append(snapshot, w) })
	if len(snapshot) != 1 || snapshot[0] != now || len(v.wires) != 1 {
		t.Errorf("%d lines of %d are left", len(snapshot), len(v.wires))
	}
	select {
	case <-before.ended:
	default:
		t.Error("the line of the former connection goes on")
	}
	for n := range v.patience + 1 { // the session's creation counted as one frame
		if _, kept := v.wires[now.token]; !kept {
			t.Errorf("lost at look %d", n)
		}
		v.check(v.listen)
	}
	if len(v.wires) != 0 {
		t.Error("a silent line is kept")
	}
}
