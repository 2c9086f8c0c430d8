// Package connect opens what a process of the service works on: the database and the bus.
package connect

import (
	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/config"
	"parley/shared/store"
)

// Servers are a process's connections.
type Servers struct {
	Store *store.Store
	Bus   *bus.Bus
}

// Open prepares connections to the servers that the settings name, at most conns of them to the database.
// It waits for neither: what needs one reports when it cannot be reached.
func Open(cfg config.Servers, name string, conns int, log zerolog.Logger) (*Servers, error) {
	if err := cfg.Require(); err != nil {
		return nil, err
	}
	st, err := store.Open(cfg.DatabaseURL, conns)
	if err != nil {
		return nil, err
	}
	b, err := bus.Dial(cfg.NATSURL, name, log)
	if err != nil {
		_ = st.Close() // nothing was sent
		return nil, err
	}
	return &Servers{Store: st, Bus: b}, nil
}

// Close ends the connections; what was published before is flushed.
func (s *Servers) Close() {
	s.Bus.Close()
	_ = s.Store.Close() // the process ends
}
