#!/bin/bash
# backup.sh and restore.sh source this file. It finds the database and runs PostgreSQL's programs.

say() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2; }
fail() {
	say "$*"
	exit 1
}

# locate sets url to DATABASE_URL without its password. The password goes into PGPASSWORD, because
# every user of the machine can see command-line arguments.
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

# locate_running sets url to the private server of a running `parley up`. The server's socket is in
# the data directory. If the path of the socket would be too long, the socket is in another
# directory, to which a link in the data directory points.
locate_running() {
	local socket
	socket=$(cat "$DATA_DIR/postgres/socket" 2>/dev/null) || socket=$(cd "$DATA_DIR/postgres/data" 2>/dev/null && pwd) ||
		fail "$DATA_DIR is not a data directory of parley"
	[ -S "$socket/.s.PGSQL.5432" ] || fail "no PostgreSQL server is running in $DATA_DIR; start parley up, or copy the directory"
	url="host='$socket' user=parley dbname=parley"
}

# pg runs a program of PostgreSQL, with the prefix PG_RUN if it is set.
pg() {
	# shellcheck disable=SC2086 # PG_RUN is several words
	${PG_RUN:-} "$@"
}
