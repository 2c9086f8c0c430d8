// Package connect opens a process's connections to the database and the bus. It is for all
// processes that do not start their own servers. These processes therefore have the same settings
// and metrics.
package connect

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/config"
	"parley/shared/store"
	"parley/shared/store/pg"
	"parley/shared/telemetry/status"
	"parley/shared/telemetry/tracing"
)

// Servers are a process's connections to the database and the bus. They are opened once and closed
// when the process ends.
type Servers struct {
	Store *store.Store
	Bus   *bus.Bus
}

// Open prepares connections to the configured servers, with at most conns database connections. It
// does not wait for the servers; later calls return errors while a server is unreachable.
func Open(
	cfg config.Servers, keys config.Secrets, name string, conns int, tracer *tracing.Tracer, log zerolog.Logger,
) (*Servers, error) {
	if err := config.Invalid(cfg.Require()); err != nil {
		return nil, err
	}

	st, err := Store(cfg.DatabaseURL, keys, conns, tracer)
	if err != nil {
		return nil, err
	}

	b, err := bus.Dial(cfg.NATSURL, name, log)
	if err != nil {
		_ = st.Close() // nothing was written
		return nil, err
	}

	b.Replicate(cfg.NATSReplicas)
	return &Servers{Store: st, Bus: b}, nil
}

// Store opens the store with the configured keys and at most conns connections. Statements that are
// part of a trace are traced. Without valid keys, sealed values cannot be read.
func Store(dsn string, keys config.Secrets, conns int, tracer *tracing.Tracer) (*store.Store, error) {
	connector, err := pg.Connector(dsn, keys.KeyIDs()...)
	if err != nil {
		return nil, err
	}

	// If no collector of traces is configured, the tracer returns the connector unchanged.
	traced, err := tracer.Connector(connector)
	if err != nil {
		return nil, err
	}
	return store.On(traced, conns), nil
}

// Metrics creates the registry of the process's metrics, including metrics of the process itself
// and of these connections. If the argument jobs is true, it also checks whether the job stream
// works; on a bus with accounts, only ingresses and sweepers are permitted to do so.
func (s *Servers) Metrics(jobs bool) *prometheus.Registry {
	checks := status.Checks{"postgres": s.Store.Ping, "nats": s.Bus.Ping}
	if jobs {
		checks["jobs"] = s.Bus.CheckJobs
	}
	return status.NewRegistry(s.Store.SQL(), checks)
}

// Close flushes published messages and closes the connections.
func (s *Servers) Close() {
	s.Bus.Close()
	_ = s.Store.Close() // the process ends
}
