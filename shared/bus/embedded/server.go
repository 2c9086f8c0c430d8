package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"parley/shared/lifecycle"
)

// defaultMaxStore is the default of Config.MaxStore in bytes. It is several times the size of the
// job stream.
const defaultMaxStore = 1 << 30

// maxMemory bounds streams in memory, in bytes. Parley creates no such streams.
const maxMemory = 64 << 20

// RandomPort is a value of Config.Port. The system then chooses a free port.
const RandomPort = natsserver.RANDOM_PORT

// ErrInUse means that another process uses the directory of the streams.
var ErrInUse = errors.New("the NATS directory is in use")

// Config is the configuration of the server.
type Config struct {
	// Dir contains the streams. It is created (0700) if missing.
	Dir string
	// Host is the loopback address to listen on. Empty means 127.0.0.1.
	Host string
	// Port is the port to listen on. With 0, the server does not listen; with RandomPort, the
	// system chooses a free port.
	Port int
	// MaxStore bounds the total size of the streams' files, in bytes. 0 means 1 GiB.
	MaxStore int64
	// Log receives the server's log.
	Log zerolog.Logger
}

// Server is a running NATS server.
type Server struct {
	nats      *natsserver.Server
	lock      *lifecycle.Lock
	listening bool
}

// Start returns a server that is ready. Start takes some milliseconds, and longer if the server
// must read stored streams.
func Start(config Config) (*Server, error) {
	// The configuration is checked before anything is created on the disk.
	options, err := serverOptions(config)
	if err != nil {
		return nil, err
	}

	if err := os.MkdirAll(config.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating NATS directory: %w", err)
	}

	// Two servers with the same files would destroy the files. nats-server itself does not prevent
	// that, so this package locks the directory.
	lock, err := lifecycle.LockFile(filepath.Join(config.Dir, "server.lock"))
	if errors.Is(err, lifecycle.ErrLocked) {
		return nil, fmt.Errorf("%w: %w", ErrInUse, err)
	}
	if err != nil {
		return nil, fmt.Errorf("locking NATS directory: %w", err)
	}

	server, err := natsserver.NewServer(options)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("configuring NATS: %w", err), lock.Unlock())
	}

	log := &logger{log: config.Log}
	server.SetLoggerV2(log, false, false, false)
	server.Start() // Start returns when the streams are read and the port is open
	if err := log.failure(); err != nil {
		server.Shutdown()
		server.WaitForShutdown()
		return nil, errors.Join(fmt.Errorf("starting NATS: %w", err), lock.Unlock())
	}

	return &Server{nats: server, lock: lock, listening: config.Port != 0}, nil
}

// serverOptions applies the defaults of Config. It returns an error unless the host is a loopback
// address.
func serverOptions(config Config) (*natsserver.Options, error) {
	host := config.Host
	if host == "" {
		host = "127.0.0.1"
	}

	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("starting NATS: %s is not a loopback address, and the embedded server has no authentication", host)
	}

	maxStore := config.MaxStore
	if maxStore == 0 {
		maxStore = defaultMaxStore
	}

	return &natsserver.Options{
		ServerName: "parley",
		Host:       host,
		Port:       config.Port,
		DontListen: config.Port == 0,
		NoSigs:     true, // the process has its own handlers
		JetStream:  true,
		StoreDir:   config.Dir,
		// Without limits for memory and disk, nats-server would reserve most of the machine's
		// memory and disk.
		JetStreamMaxStore:      maxStore,
		JetStreamMaxMemory:     maxMemory,
		DisableJetStreamBanner: true,
	}, nil
}

// Conn connects through memory. Addresses in the options are ignored.
func (s *Server) Conn(options ...nats.Option) (*nats.Conn, error) {
	nc, err := nats.Connect("", append(options, nats.InProcessServer(s.nats))...)
	if err != nil {
		return nil, fmt.Errorf("connecting to embedded NATS: %w", err)
	}
	return nc, nil
}

// URL is the server's address, for example nats://127.0.0.1:4222. It is empty if the server
// does not listen.
func (s *Server) URL() string {
	if !s.listening {
		return ""
	}
	return s.nats.ClientURL()
}

// Stop closes all connections and the streams' files. If ctx ends earlier, Stop returns the
// context's error and the directory stays locked.
func (s *Server) Stop(ctx context.Context) error {
	// nats-server's Shutdown has no context, so it runs in a goroutine.
	done := make(chan struct{})
	go func() {
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
		close(done)
	}()

	select {
	case <-done:
	case <-ctx.Done():
		return fmt.Errorf("stopping NATS: %w", context.Cause(ctx))
	}

	if err := s.lock.Unlock(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("unlocking NATS directory: %w", err)
	}

	return nil
}
