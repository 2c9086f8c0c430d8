#!/bin/bash
# Read by backup.sh and restore.sh: where the database is, and how PostgreSQL's programs are run.

say() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2; }
fail() {
	say "$*"
	exit 1
}

# locate sets url, without a password: that goes into PGPASSWORD, as every user of a machine sees arguments.
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

# locate_running sets url to the private server of a parley up: its socket is in its data, or where that path was too long, behind a link.
locate_running() {
	local socket
	socket=$(cat "$DATA_DIR/postgres/socket" 2>/dev/null) || socket=$(cd "$DATA_DIR/postgres/data" 2>/dev/null && pwd) ||
		fail "$DATA_DIR is no directory of parley's"
	url="host='$socket' user=parley dbname=parley"
}

# pg runs a program of PostgreSQL.
pg() {
	# shellcheck disable=SC2086 # PG_RUN is words
	${PG_RUN:-} "$@"
}
