package store_test

import (
	"strings"
	"testing"

	"parley/shared/store/executiondb"
)

// A batch of large logs is read in portions of 1 MiB. A log that is larger than 1 MiB is read
// alone. The logs that do not fit into a portion are deferred. The reader requests them again until
// all logs are read.
func TestLargeEventLogsAreReadInPortions(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	sizes := []int{12 << 20, 400 << 10, 400 << 10, 400 << 10, 900 << 10}
	reqs := make([]executiondb.EventLogRequest, len(sizes))
	for i, size := range sizes {
		out := b.accept(wideWindow, b.run("", ""))
		published := executiondb.Chunk{FirstN: 2, LastN: 2, Events: `message.delta {"text":"` + strings.Repeat("x", size) + "\"}\n"}
		b.endWith(b.mustClaim(out[0].Run.Run.ID), published, 3)
		reqs[i] = executiondb.EventLogRequest{RunID: out[0].Run.Run.ID, OrganizationID: b.org}
	}
	rounds := 0
	for ; len(reqs) > 0; rounds++ {
		logs, err := b.s.Executions.EventLogs(t.Context(), reqs)
		if err != nil {
			t.Fatal(err)
		}
		var again []executiondb.EventLogRequest
		bytes, read := 0, 0
		for i, log := range logs {
			switch {
			case log == nil:
				t.Fatalf("no log of %s", reqs[i].RunID)
			case log.Deferred:
				again = append(again, reqs[i])
			case len(log.Chunks) != 1 || log.EndFence == 0 || resultFor(log.Run) == nil:
				t.Errorf("an incomplete log of %s", reqs[i].RunID)
			default:
				bytes, read = bytes+len(log.Chunks[0].Events), read+1
			}
		}
		if read == 0 || read > 1 && bytes > 1<<20 {
			t.Fatalf("%d bytes of %d logs were read at a time", bytes, read)
		}
		reqs = again
	}
	if rounds != 4 {
		t.Errorf("%d statements", rounds)
	}
}
