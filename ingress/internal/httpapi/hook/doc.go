// Package hook manages the hooks that receive webhooks and accepts their deliveries. A hook
// connects a source, such as GitHub, with an agent: each delivery to the hook's URL can start a
// run.
//
//	source ─► ReceiveDelivery ─► limits ─► headers ─► body ─► signature ─► intake.Intake.Take ─► run
//
// This package owns the HTTP side:
//
//   - the hooks as resources for admins
//   - the bounds on bodies from strangers
//   - the limits on deliveries without a valid signature
//   - the log of rejected deliveries
//
// Package webhookin knows the sources' protocols, and intake decides what becomes of a delivery.
//
// Deliveries need no account. The signature authenticates them, and the run acts with the rights of
// the hook's API key. Package hookdb has the tables. Hooks and verified senders are cached in
// memory, separately in each ingress process.
package hook
