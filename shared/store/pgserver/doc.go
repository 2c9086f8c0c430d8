// Package pgserver runs a private PostgreSQL out of one directory, from binaries found
// on the machine.
//
// Below Config.Dir, which belongs to the supervising process alone (0700):
//
//	data/            the cluster, owned by the account that PostgreSQL runs under;
//	                 it also holds the unix socket
//	data.new/        a cluster that initdb has not finished; removed and made again
//	server.log       what PostgreSQL says, bounded in size; server.log.1 is what was before
//	supervisor.lock  held by the supervising process
//	server.lock      held by PostgreSQL and all its backends, who inherit it
//	password         of the superuser, for connections over TCP
//
// A start:
//
//	supervisor.lock ── taken ─────────▶ error: names the process that has it
//	      │ free
//	      ▼
//	 server.lock ── taken ── an orphan of a run that was killed still lives:
//	      │ free              SIGINT → SIGQUIT → SIGKILL until the lock is free
//	      ▼                        │
//	 no data/ ── initdb ──▶ data.new/ ── rename ──▶ data/
//	      │                        │
//	      ▼                        ▼
//	 postgres starts ── postmaster.pid says "ready" and a connection answers ──▶ Server
//
// Whether a process is an orphan of this directory is never told by its id alone, which
// the system may have given to another program: its command line must carry the name that
// is made of the device and inode of data/, as every PostgreSQL started here does.
//
// PostgreSQL refuses to run as root. Started by root, it runs under the account that owns
// data/, or for a new one under "postgres" or "nobody". That account often cannot reach
// the directory (somewhere below /root, say), and nothing is opened up for it: it inherits
// data/ as an open descriptor and is told /proc/self/fd/3 as its path, and the socket
// stands at "." of its working directory. Connections over the socket need no password:
// only root and that account, who could read the files anyway, get to it.
package pgserver
