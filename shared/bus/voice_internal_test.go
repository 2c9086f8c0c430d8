package bus

import (
	"testing"

	"github.com/rs/zerolog"

	"parley/shared/contract"
	"parley/shared/testkit"
)

// TestALineOfAFormerConnectionIsLost has the connection break and come back between two looks.
func TestALineOfAFormerConnectionIsLost(t *testing.T) {
	t.Parallel()
	b, err := Dial(testkit.NATS(t), "test", zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	v := &voiceBoard[contract.VoiceCommand]{nc: b.nc, patience: voiceUnheardLooks, wires: map[string]*voiceWire[contract.VoiceCommand]{}}
	before, now := v.wire("peer", nil), v.wire("peer", nil)
	before.reconnects--
	var looked []*voiceWire[contract.VoiceCommand]
	v.look(func(w *voiceWire[contract.VoiceCommand]) { looked = append(looked, w) })
	if len(looked) != 1 || looked[0] != now || len(v.wires) != 1 {
		t.Errorf("%d lines of %d are left", len(looked), len(v.wires))
	}
	select {
	case <-before.ended:
	default:
		t.Error("the line of the former connection goes on")
	}
	for n := range v.patience + 1 { // now it was heard of once, when it was made
		if _, kept := v.wires[now.token]; !kept {
			t.Errorf("lost at look %d", n)
		}
		v.look(v.listen)
	}
	if len(v.wires) != 0 {
		t.Error("a silent line is kept")
	}
}
