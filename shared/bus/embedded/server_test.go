package embedded

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

func start(t *testing.T, config Config) *Server {
	t.Helper()
	config.Log = zerolog.New(zerolog.NewTestWriter(t))
	began := time.Now()
	server, err := Start(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ready after %s", time.Since(began))
	t.Cleanup(func() { stop(t, server) })
	return server
}

func stop(t *testing.T, server *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	if err := server.Stop(ctx); err != nil {
		t.Fatal(err)
	}
}

func connect(t *testing.T, server *Server) jetstream.JetStream {
	t.Helper()
	nc, err := server.Conn(nats.Name(t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

var jobs = jetstream.StreamConfig{Name: "JOBS", Subjects: []string{"jobs.>"}, Retention: jetstream.WorkQueuePolicy, MaxBytes: 256 << 20}

func TestStreamsOutliveTheServer(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "below", "nats")
	server := start(t, Config{Dir: dir})
	if server.URL() != "" {
		t.Fatalf("listens on %s without having been asked", server.URL())
	}
	js := connect(t, server)
	if _, err := js.CreateStream(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if _, err := js.Publish(t.Context(), "jobs.a", []byte("run")); err != nil {
			t.Fatal(err)
		}
	}
	stop(t, server)
	stream, err := connect(t, start(t, Config{Dir: dir})).Stream(t.Context(), "JOBS")
	if err != nil {
		t.Fatal(err)
	}
	if got := stream.CachedInfo().State.Msgs; got != 100 {
		t.Fatalf("%d messages after a restart", got)
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("directory %v, %v", info, err)
	}
}

func TestPort(t *testing.T) {
	t.Parallel()
	server := start(t, Config{Dir: t.TempDir(), Port: RandomPort})
	if !strings.HasPrefix(server.URL(), "nats://127.0.0.1:") {
		t.Fatalf("URL %s", server.URL())
	}
	nc, err := nats.Connect(server.URL(), nats.Timeout(20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	sub, err := nc.SubscribeSync("greetings")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := connect(t, server).Conn().Publish("greetings", []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if msg, err := sub.NextMsg(5 * time.Second); err != nil || string(msg.Data) != "hello" {
		t.Fatalf("message %v, %v", msg, err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	taken := t.TempDir()
	start(t, Config{Dir: taken})
	spoiled := t.TempDir()
	if err := os.WriteFile(filepath.Join(spoiled, "jetstream"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		config Config
		is     error
		says   string
	}{
		{"busy port", Config{Dir: t.TempDir(), Port: listener.Addr().(*net.TCPAddr).Port}, nil, "address already in use"},
		{"open to others", Config{Dir: t.TempDir(), Host: "0.0.0.0", Port: RandomPort}, nil, "not a loopback address"},
		{"directory in use", Config{Dir: taken}, ErrInUse, "process"},
		{"no directory", Config{Dir: file}, nil, "creating NATS directory"},
		{"no place for streams", Config{Dir: spoiled}, nil, "starting NATS"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server, err := Start(test.config)
			if err == nil {
				stop(t, server)
				t.Fatal("started")
			}
			if test.is != nil && !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.says) {
				t.Fatalf("error %v", err)
			}
		})
	}
}

func TestDirectoryIsFreeAfterAFailure(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dir := t.TempDir()
	if _, err := Start(Config{Dir: dir, Port: listener.Addr().(*net.TCPAddr).Port}); err == nil {
		t.Fatal("started on a busy port")
	}
	connect(t, start(t, Config{Dir: dir}))
}

func TestStopOutOfTime(t *testing.T) {
	t.Parallel()
	server := start(t, Config{Dir: t.TempDir()})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := server.Stop(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
