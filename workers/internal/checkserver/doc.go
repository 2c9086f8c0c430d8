// Package checkserver checks the connections of an agent, on request of an ingress over the bus.
//
//	request ─► signed claims? ─┬─ no ──► refused
//	                           └─ yes ─► free slot ─► configuration of the agent's version ─► probes ─► results
//
// The claims name the organization, the agent and the version, so the body is empty. A tool worker
// checks the connections of tools (NewTools), and an agent worker the models (NewModels), because
// only these processes have the settings and secrets. A check has no run: it is neither journaled
// nor part of usage.
package checkserver
