#!/bin/bash
# Sourced by backup.sh and restore.sh: finds the database and runs PostgreSQL's programs.

say() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2; }
fail() {
	say "$*"
	exit 1
}

# locate sets url without the password, which goes into PGPASSWORD because every user of the machine can see
# command-line arguments.
locate() {
	local scheme rest login password
	url=$DATABASE_URL scheme=${DATABASE_URL%%://*} rest=${DATABASE_URL#*://}
	login=${rest%%[/?]*}
	case $login in *:*@*) login=${login%@*} ;; *) return ;; esac
	password=${login#*:}
	printf -v PGPASSWORD '%b' "${password//%/\\x}"
	export PGPASSWORD
	url=$scheme://${login%%:*}@${rest#"$login"@}
}

# locate_running sets url to the private server of a running parley up. The server's socket is in the data directory,
# or, if that path is too long, in the directory to which a link there points.
locate_running() {
	local socket
	socket=$(cat "$DATA_DIR/postgres/socket" 2>/dev/null) || socket=$(cd "$DATA_DIR/postgres/data" 2>/dev/null && pwd) ||
		fail "$DATA_DIR is not a data directory of parley"
	url="host='$socket' user=parley dbname=parley"
}

# pg runs a PostgreSQL program.
pg() {
	# shellcheck disable=SC2086 # PG_RUN is several words
	${PG_RUN:-} "$@"
}
