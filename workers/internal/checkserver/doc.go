// Package checkserver checks the connections of an agent. Ingresses request checks over the bus.
//
//	request ─► signed claims? ─┬─ no ──► refused
//	                           └─ yes ─► free slot ─► configuration of the agent's version ─► probes ─► results
//
// The signed claims name the organization, the agent and the version, so the body of a request is
// empty. Tool workers check the connections of tools (NewTools), and agent workers check models
// (NewModels), because only these processes have the settings and secrets that are needed. A check
// belongs to no run and is not recorded in a journal.
package checkserver
