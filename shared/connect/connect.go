// Package connect opens what a process of the service works on: the database and the bus.
package connect

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/config"
	"parley/shared/store"
	"parley/shared/store/pg"
	"parley/shared/telemetry/metrics"
	"parley/shared/telemetry/tracing"
)

// Servers are a process's connections.
type Servers struct {
	Store *store.Store
	Bus   *bus.Bus
}

// Open prepares connections to the servers that the settings name, at most conns of them to the database.
// It waits for neither: what needs one reports when it cannot be reached.
func Open(
	cfg config.Servers, keys config.Secrets, name string, conns int, tracer *tracing.Tracer, log zerolog.Logger,
) (*Servers, error) {
	if err := cfg.Require(); err != nil {
		return nil, err
	}
	st, err := Store(cfg.DatabaseURL, keys, conns, tracer)
	if err != nil {
		return nil, err
	}
	b, err := bus.Dial(cfg.NATSURL, name, log)
	if err != nil {
		_ = st.Close() // nothing was sent
		return nil, err
	}
	b.Replicate(cfg.NATSReplicas)
	return &Servers{Store: st, Bus: b}, nil
}

// Store is store.Open with statements that are part of a trace traced, for a process that has these keys.
func Store(dsn string, keys config.Secrets, conns int, tracer *tracing.Tracer) (*store.Store, error) {
	connector, err := pg.Connector(dsn, keys.KeyIDs()...)
	if err != nil {
		return nil, err
	}
	traced, err := tracer.Connector(connector)
	if err != nil {
		return nil, err
	}
	return store.On(traced, conns), nil
}

// Metrics makes the registry of the process's metrics, with those of the process itself and of these connections. jobs adds whether the
// job stream works: ingresses and sweepers may ask for that on a bus with accounts.
func (s *Servers) Metrics(jobs bool) *prometheus.Registry {
	checks := metrics.Checks{"postgres": s.Store.Ping, "nats": s.Bus.Ping}
	if jobs {
		checks["jobs"] = s.Bus.CheckJobs
	}
	return metrics.New(s.Store.SQL(), checks)
}

// Close ends the connections; what was published before is flushed.
func (s *Servers) Close() {
	s.Bus.Close()
	_ = s.Store.Close() // the process ends
}
