// Package agentdb stores agents with their versions, templates, and the settings of widgets.
//
// The ingress creates and changes agents. Each change stores the next version of the agent, and a
// row of agent_configs with the part that its runs need. Runs refer to a version, so a later change
// does not affect them; package executiondb reads the configuration.
//
// Templates belong to the service and not to an organization. The process that migrates the
// database writes them; see SyncTemplates.
//
// The package writes the tables agents, agent_configs and templates. It neither validates agents
// nor opens sealed secrets.
package agentdb

import (
	"parley/shared/store/pg"
)

// Store reads and writes agents, templates and widgets. It is safe for concurrent use.
type Store struct {
	db *pg.DB
}

// New creates the store on a database.
func New(db *pg.DB) *Store {
	return &Store{db: db}
}
