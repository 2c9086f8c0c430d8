// Package standalone runs Parley in one process: private servers, schema, workers, ingress, and the
// contents of a new service (seeds). They start in this order and stop in the reverse order.
//
//	lock DATA_DIR ─► PostgreSQL ─► NATS ─► schema, templates ─► workers ─► ingress ─► seeds ─► banner
//
// Workers and ingress communicate through NATS, as they do in separate processes. So the behavior
// of a service does not depend on the number of its processes.
//
// The package contains the commands that run the service or need its database: Up, Serve, Migrate,
// Doctor, Secrets, ResetPassword and Reset. The commands that call a running service are in package
// cli. The parser in cmd/parley fills in the fields of all commands from flags and environment
// variables, and prints the texts of Help and Examples.
//
// DATA_DIR belongs to one process at a time, which holds the lock in it. It contains:
//
//   - postgres and nats: the data of the private servers
//   - secrets.key: the generated SECRETS_KEY
//   - credentials.json: the values that scripts and commands need
package standalone
