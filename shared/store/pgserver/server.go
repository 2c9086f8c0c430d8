package pgserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/lifecycle"
	"parley/shared/lifecycle/childproc"
)

// logCheck is the interval at which the size of PostgreSQL's log file is checked.
const logCheck = time.Minute

// Config configures a private PostgreSQL.
type Config struct {
	// Dir is the server's directory. Start creates it with mode 0700 if it is missing.
	Dir string
	// Log receives messages about starts, stops and servers left over by killed processes.
	// PostgreSQL's own log goes to Dir/server.log.
	Log zerolog.Logger
	// Settings are PostgreSQL settings by name. They override this package's defaults. With the
	// defaults, no committed transaction is lost. With fsync=off, a new cluster is also created
	// without syncing.
	Settings map[string]string
	// Port is the port of 127.0.0.1 on which the server also listens, with a generated password. 0
	// means that the server listens only on the unix socket.
	Port int
}

// Server is a running PostgreSQL. Its methods are safe for concurrent use, except Restart. Each
// directory has at most one Server.
type Server struct {
	config      Config
	cluster     cluster
	supervision *lifecycle.Lock
	log         *logFile
	record      string // file that contains the path of the link through which clients reach the socket, if there is such a link
	socket      string // directory in which clients find the socket
	password    string // set only if the server has a port
	child       *childproc.Child

	stopping   atomic.Bool
	restarting atomic.Bool // Restart was called: the next server uses the same socket directory
	done       chan struct{}
	err        error // set before done is closed
}

// Start returns a running server. It ends the server that a killed process has left running in the
// directory, and creates the cluster if it is missing. It returns once the server accepts
// connections: after about 0.1 s, or 1 s with a new cluster. ctx applies only to the start; the
// server runs until Stop. If this process dies first, Linux signals the server to stop, and the
// next Start makes sure that it has stopped.
func Start(ctx context.Context, config Config) (*Server, error) { return startAt(ctx, config, "") }

// startAt implements Start. The argument socket is the socket directory of the previous server; ""
// means that a new directory is chosen.
func startAt(ctx context.Context, config Config, socket string) (*Server, error) {
	dir, err := filepath.Abs(config.Dir)
	if err != nil {
		return nil, fmt.Errorf("resolving the path of the PostgreSQL directory: %w", err)
	}

	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating PostgreSQL directory: %w", err)
	}

	config.Dir = dir

	// Only one process at a time may supervise a directory. The process takes this lock before it
	// touches the data.
	supervision, err := lifecycle.LockFile(filepath.Join(dir, "supervisor.lock"))
	if errors.Is(err, lifecycle.ErrLocked) {
		return nil, fmt.Errorf("%w: %w", ErrInUse, err)
	}
	if err != nil {
		return nil, fmt.Errorf("locking PostgreSQL directory: %w", err)
	}

	server := &Server{
		config: config, supervision: supervision, socket: socket,
		record: filepath.Join(dir, recordName), done: make(chan struct{}),
	}

	began := time.Now()
	if err := server.start(ctx); err != nil {
		return nil, errors.Join(err, server.release())
	}

	config.Log.Debug().Int("pid", server.PID()).Str("version", server.cluster.binaries.Version).
		Str("dir", dir).Dur("took", time.Since(began)).Msg("PostgreSQL started")
	return server, nil
}

// start takes the lock of the data directory, opens the cluster and launches the server. When it
// returns without an error, the server accepts connections and watch runs. After an error the
// server has ended.
func (s *Server) start(ctx context.Context) (err error) {
	lock, err := takeOver(ctx, s.config.Dir, stopSignals, func(pids []int, signal syscall.Signal) {
		s.config.Log.Warn().Ints("pids", pids).Str("signal", signal.String()).Msg("stopping the PostgreSQL server of a killed process")
	})
	if err != nil {
		return err
	}

	// When start returns, this process closes the lock file, so that only PostgreSQL's processes
	// hold the lock. Otherwise the lock would not show whether PostgreSQL is running.
	defer func() { err = errors.Join(err, lock.Leave()) }()
	s.cluster, err = openCluster(ctx, s.config.Dir, s.config.Settings["fsync"] != "off", lock)
	if err != nil {
		return err
	}

	if s.log, err = openLog(s.config.Dir); err != nil {
		return err
	}

	if s.socket == "" {
		if s.socket, err = makeShortcut(s.cluster.data, s.record, s.port()); err != nil {
			return err
		}
	}

	if err := s.launch(ctx, lock); err != nil {
		return err
	}

	// The server rejects connections while it recovers, so wait until it is ready.
	err = s.awaitReady(ctx)
	if err == nil && s.config.Port > 0 {
		err = s.setPassword(ctx)
	}

	if err != nil {
		s.end(ctx)
		return err
	}

	go s.watch()
	return nil
}

// launch starts the postmaster. It does not wait until the server is ready.
func (s *Server) launch(ctx context.Context, lock *lifecycle.Lock) error {
	name, err := clusterName(s.cluster.data)
	if err != nil {
		return err
	}

	cmd, data, err := s.cluster.command(ctx, s.cluster.binaries.Postgres, arguments(s.config.Settings, s.config.Port, name), lock)
	if err != nil {
		return err
	}

	defer data.Close()
	cmd.Stdout, cmd.Stderr = s.log.file, s.log.file
	// If this process dies, the server does a fast shutdown, which leaves the data in the same
	// state as Stop.
	if s.child, err = childproc.Start(cmd, syscall.SIGINT); err != nil {
		return fmt.Errorf("starting PostgreSQL: %w", err)
	}

	return nil
}

// awaitReady waits until the server is ready. It has no timeout, because the duration of a recovery
// is unknown.
func (s *Server) awaitReady(ctx context.Context) error {
	for {
		ready, err := poll(ctx, time.Second, func() (bool, error) {
			if s.child.Ended() {
				return false, fmt.Errorf("PostgreSQL exited while starting: %w: %s", s.child.Err(), s.log.tail())
			}
			recorded := recordedPostmaster(s.cluster.data)
			return recorded.pid == s.child.PID() && recorded.status == "ready", nil
		})
		if err != nil {
			return err
		}
		if ready {
			return s.ping(ctx)
		}
		s.config.Log.Debug().Int("pid", s.PID()).Msg("waiting for PostgreSQL, which may be recovering")
	}
}

// watch limits the size of PostgreSQL's log file until the postmaster ends. Then watch calls
// release and closes s.done.
func (s *Server) watch() {
	tick := time.NewTicker(logCheck)
	defer tick.Stop()
	for !s.child.Ended() {
		select {
		case <-tick.C:
			if err := s.log.rotate(); err != nil {
				s.config.Log.Warn().Err(err).Msg("cannot truncate PostgreSQL's log")
			}
		case <-s.child.Done():
		}
	}

	// It is an error if the server ends without a call of Stop.
	if !s.stopping.Load() {
		s.err = fmt.Errorf("%w: %w: %s", ErrDied, s.child.Err(), s.log.tail())
	}

	s.err = errors.Join(s.err, s.release())
	close(s.done)
}

// release is called after the server has ended. It removes the link to the socket's directory,
// except before a restart. It closes the log and releases the supervisor lock.
func (s *Server) release() error {
	var err error
	if !s.restarting.Load() {
		err = removeShortcut(s.record)
	}
	if s.log != nil {
		err = errors.Join(err, s.log.file.Close())
	}
	return errors.Join(err, s.supervision.Unlock())
}

// Stop ends the server by a fast shutdown, which rolls back open transactions. If ctx ends, or
// after 15 s, it sends stronger signals and returns an error, although no committed data is lost. A
// concurrent second Stop also waits until the server has ended.
func (s *Server) Stop(ctx context.Context) error {
	s.stopping.Store(true)
	used := s.end(ctx)
	<-s.done
	if used != 0 && used != syscall.SIGINT {
		return errors.Join(fmt.Errorf("PostgreSQL had to be stopped by %s; its next start recovers", used), s.err)
	}
	return s.err
}

// Restart stops the server, unless it has died, and returns another server with the same data and
// DSN. s must not be used afterwards.
func (s *Server) Restart(ctx context.Context) (*Server, error) {
	s.restarting.Store(true)
	if err := s.Stop(ctx); err != nil {
		s.config.Log.Warn().Err(err).Msg("PostgreSQL did not stop cleanly before its restart")
	}
	return startAt(ctx, s.config, s.socket)
}

// end sends signals until the postmaster is gone. It returns the last signal that was needed.
func (s *Server) end(ctx context.Context) (used syscall.Signal) {
	for _, way := range stopSignals {
		if s.child.Ended() {
			return used
		}
		used = way.signal
		if err := s.child.Signal(used); err != nil {
			s.config.Log.Warn().Err(err).Str("signal", used.String()).Msg("cannot signal PostgreSQL")
		}

		patience := ctx
		if used != syscall.SIGINT {
			patience = context.WithoutCancel(ctx) // the remaining signals take little time and must be sent
		}
		// If poll returns an error, ctx has ended. The loop then sends the next signal immediately.
		_, _ = poll(patience, way.patience, func() (bool, error) { return s.child.Ended(), nil })
	}

	<-s.child.Done() // a process that is blocked in the kernel ends only later, so wait for it
	return used
}

// PID is the postmaster's process id.
func (s *Server) PID() int { return s.child.PID() }

// Done is closed when the server has ended, by Stop or unexpectedly.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err returns nil while the server runs and after a clean Stop. If the server ended
// unexpectedly, it returns ErrDied with the end of the server's log.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// DSN returns the connection URL of a database for the superuser. If the server has a port, the URL
// uses TCP and contains a password; otherwise it uses the socket.
func (s *Server) DSN(database string) string {
	if s.config.Port == 0 {
		return s.socketDSN(database)
	}
	dsn := url.URL{
		Scheme: "postgres", User: url.UserPassword(User, s.password),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.config.Port)), Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return dsn.String()
}

// socketDSN is the variant of DSN that always uses the unix socket.
func (s *Server) socketDSN(database string) string { return socketURL(s.socket, s.port(), database) }

// socketURL returns the URL of a database on the server whose socket is in the directory.
func socketURL(socket string, port int, database string) string {
	query := url.Values{"host": {socket}, "port": {strconv.Itoa(port)}, "sslmode": {"disable"}}
	dsn := url.URL{Scheme: "postgres", User: url.User(User), Path: "/" + database, RawQuery: query.Encode()}
	return dsn.String()
}

// port returns the TCP port, or socketPort if the server does not listen on TCP. The number is part
// of the socket's file name in either case.
func (s *Server) port() int {
	if s.config.Port > 0 {
		return s.config.Port
	}
	return socketPort
}
