package abuse

import "testing"

// TestAbuse runs the attacks one after another against the same Parley.
func TestAbuse(t *testing.T) { //nolint:paralleltest // it measures latency
	// The limit of connections is lowered, because an attacker would need minutes to open as many
	// as the default allows.
	s := newService(t, "CONNECTIONS_PER_ADDRESS=1000")
	for _, attack := range []struct { //nolint:paralleltest // it measures latency
		name string
		test func(*testing.T, *service)
	}{
		{"wrong_signatures", wrongSignatures},
		{"key_floods", keyFloods},
		{"strangers_churn", strangersChurn},
		{"slow_readers", slowReaders},
		{"replay_floods", replayFloods},
		{"document_bombs", documentBombs},
	} {
		t.Run(attack.name, func(t *testing.T) { attack.test(t, s) })
	}
}
