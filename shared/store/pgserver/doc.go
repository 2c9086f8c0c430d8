// Package pgserver runs a private PostgreSQL server in one directory, with binaries
// found on the machine.
//
// Contents of Config.Dir, which only the supervising process can enter (0700):
//
//	data/            the cluster, owned by the account that PostgreSQL runs under;
//	                 it also contains the unix socket
//	data.new/        a cluster that initdb has not finished; removed and created again
//	server.log       PostgreSQL's log, bounded in size; server.log.1 is the previous part
//	supervisor.lock  held by the supervising process
//	server.lock      held by PostgreSQL and all its backends, which inherit it
//	password         the superuser's password, for connections over TCP
//
// A start:
//
//	supervisor.lock ── taken ─────────▶ error with the process that has it
//	      │ free
//	      ▼
//	 server.lock ── taken ── an orphan of a killed run is still alive:
//	      │ free              SIGINT → SIGQUIT → SIGKILL until the lock is free
//	      ▼                        │
//	 no data/ ── initdb ──▶ data.new/ ── rename ──▶ data/
//	      │                        │
//	      ▼                        ▼
//	 postgres starts ── postmaster.pid says "ready" and a connection answers ──▶ Server
//
// A process is never identified as an orphan by its id alone, because the system may have reused
// the id. The process's command line must contain the cluster name, which consists of the device
// and inode of data/ and which every server started here has.
//
// PostgreSQL refuses to run as root. If this process is root, PostgreSQL runs under the account
// that owns data/; a new cluster uses "postgres" or "nobody". That account often cannot reach the
// directory, for example below /root, and no permissions are changed to allow it. Instead,
// PostgreSQL inherits data/ as an open descriptor, with the path /proc/self/fd/3, and creates its
// socket in its working directory, ".". Connections over the socket need no password: only root and
// that account can reach it, and both can read the files anyway.
package pgserver
