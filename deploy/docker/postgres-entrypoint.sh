#!/bin/bash
# Entry point of the PostgreSQL image that local.sh builds. It has those features of the public
# image that compose.yaml uses. If PGDATA is empty, it creates a cluster with POSTGRES_USER,
# POSTGRES_PASSWORD and POSTGRES_DB, and runs /docker-entrypoint-initdb.d/*.sh. Then it starts the
# server.
set -euo pipefail

if [ "${1:-}" = postgres ] && [ ! -e "$PGDATA/complete" ]; then
	user=${POSTGRES_USER:-postgres}
	export POSTGRES_USER=$user POSTGRES_DB=${POSTGRES_DB:-$user} PGUSER=$user
	rm -rf "${PGDATA:?}"/* # remove what an interrupted start has left
	initdb -D "$PGDATA" -U "$user" --pwfile=<(printf '%s\n' "${POSTGRES_PASSWORD:?}") --auth-local=trust --auth-host=scram-sha-256 >/dev/null
	printf 'host all all all scram-sha-256\n' >>"$PGDATA/pg_hba.conf"
	pg_ctl -D "$PGDATA" -w -o "-c listen_addresses=''" start >/dev/null
	[ "$POSTGRES_DB" = postgres ] || createdb -h /var/run/postgresql "$POSTGRES_DB"
	for script in /docker-entrypoint-initdb.d/*.sh; do
		[ ! -r "$script" ] || PGHOST=/var/run/postgresql bash "$script"
	done
	pg_ctl -D "$PGDATA" -w -m fast stop >/dev/null
	: >"$PGDATA/complete"
fi
exec "$@" -c listen_addresses='*'
