package bus_test

import (
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"parley/shared/contract"
	"parley/shared/testkit"
)

// TestCheckJobs checks the stream from two processes several times, and verifies that no message
// remains in it.
func TestCheckJobs(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	for range 3 {
		for range 2 {
			b := dial(t, url) // stands for another process
			if _, err := b.EnsureStream(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := b.CheckJobs(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	stream := openStream(t, url)
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(contract.SubjectProbe+">"))
	if err != nil {
		t.Fatal(err)
	}
	if len(info.State.Subjects) != 0 {
		t.Errorf("probes stay in the stream: %v", info.State.Subjects)
	}
}

// CheckJobs returns an error if the stream does not exist.
func TestCheckJobsWithoutAStream(t *testing.T) {
	t.Parallel()
	if err := dial(t, testkit.NATS(t)).CheckJobs(t.Context()); err == nil {
		t.Error("no error although there is no stream")
	}
}

// On a server with only 64 MiB for all streams, the job stream is created with less than the
// default size.
func TestStreamOfALittleServer(t *testing.T) {
	t.Parallel()
	config := t.TempDir() + "/little.conf"
	if err := os.WriteFile(config, []byte("jetstream { max_file: 64M, max_mem: 16M }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := testkit.NATSWith(t, config, nil)
	b := dial(t, server.URL)
	if _, err := b.EnsureStream(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.CheckJobs(t.Context()); err != nil {
		t.Error(err)
	}
	if got := openStream(t, server.URL).CachedInfo().Config.MaxBytes; got != 32<<20 {
		t.Errorf("the stream may hold %d bytes", got)
	}
}

// If the server has no JetStream, the error explains how to start the server with JetStream.
func TestServerWithoutJetStream(t *testing.T) {
	t.Parallel()
	config := t.TempDir() + "/plain.conf"
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := dial(t, testkit.NATSWith(t, config, nil).URL)
	_, err := b.EnsureStream(t.Context())
	for what, err := range map[string]error{"EnsureStream": err, "CheckJobs": b.CheckJobs(t.Context())} {
		if err == nil || !strings.Contains(err.Error(), "NATS has no JetStream; start it with nats-server -js") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func openStream(t *testing.T, url string) jetstream.Stream {
	t.Helper()
	js := testkit.JetStream(t, url)
	stream, err := js.Stream(t.Context(), contract.StreamJobs)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}
