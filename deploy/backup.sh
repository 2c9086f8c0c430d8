#!/bin/bash
# deploy/backup.sh FILE: backs up PostgreSQL while the service runs. The backup contains all data of the service
# except SECRETS_KEY, without which stored secrets cannot be decrypted: keep a copy of the key in another place.
# deploy/restore.sh restores the backup; docs/operations.md explains both scripts.
#
#   DATABASE_URL   the database, as an administrator or as a login with BYPASSRLS and pg_read_all_data
#   DATA_DIR       instead of DATABASE_URL: the data directory of a running `parley up`
#   PG_RUN         prefix of the pg_dump command, if PostgreSQL's programs are elsewhere:
#                  PG_RUN='docker compose -f deploy/compose.yaml exec -T postgres' DATABASE_URL='postgres:///parley?user=postgres'
set -euo pipefail
# shellcheck source=deploy/database.sh
. "$(dirname "${BASH_SOURCE[0]}")/database.sh"
[ $# = 1 ] || { echo 'usage: deploy/backup.sh FILE' >&2 && exit 2; }
file=$1 unfinished=$1.unfinished begun=$SECONDS
umask 077

[ ! -e "$file" ] || fail "$file already exists"
[ -d "$(dirname "$file")" ] || fail "the directory $(dirname "$file") does not exist"
if [ -n "${DATABASE_URL:-}" ]; then
	locate
elif [ -n "${DATA_DIR:-}" ]; then
	locate_running
else
	fail 'set DATABASE_URL, or set DATA_DIR to the directory of a running parley up'
fi
trap 'rm -f "$unfinished"' EXIT

# pg_dump reads all data in one snapshot. Meanwhile, the service can read and write. Only migrations
# and the backup wait for each other. The backup omits the data of unlogged tables (the counters of
# rate limits), which PostgreSQL empties after a crash anyway.
pg pg_dump --format=custom --no-unlogged-table-data --lock-wait-timeout=60s --dbname="$url" </dev/null >"$unfinished" ||
	fail 'pg_dump failed; a login that is subject to row-level security cannot take a backup: see docs/operations.md'
tables=$(pg pg_restore --list <"$unfinished" | grep -c ' TABLE DATA ') || fail 'the output of pg_dump is not readable'
sync "$unfinished"
mv "$unfinished" "$file"
say "$file: $(($(wc -c <"$file"))) bytes, $tables tables, $((SECONDS - begun)) s. It does not contain SECRETS_KEY."
