#!/bin/bash
# deploy/backup.sh FILE: a back-up of PostgreSQL, taken while the service runs. It holds all that the service keeps but SECRETS_KEY,
# without which stored secrets cannot be read: keep that apart. deploy/restore.sh reads it; docs/operations.md explains both.
#
#   DATABASE_URL   the database, as an administrator or as a login with BYPASSRLS and pg_read_all_data
#   DATA_DIR       instead of it: the directory of a `parley up` that runs
#   PG_RUN         words to put before pg_dump, where PostgreSQL's programs are elsewhere:
#                  PG_RUN='docker compose -f deploy/compose.yaml exec -T postgres' DATABASE_URL='postgres:///parley?user=postgres'
set -euo pipefail
# shellcheck source=deploy/database.sh
. "$(dirname "${BASH_SOURCE[0]}")/database.sh"
[ $# = 1 ] || { echo 'usage: deploy/backup.sh FILE' >&2 && exit 2; }
file=$1 unfinished=$1.unfinished begun=$SECONDS
umask 077

[ ! -e "$file" ] || fail "$file is there already"
if [ -n "${DATABASE_URL:-}" ]; then
	locate
elif [ -n "${DATA_DIR:-}" ]; then
	locate_running
else
	fail 'set DATABASE_URL, or DATA_DIR to that of a parley up that runs'
fi
trap 'rm -f "$unfinished"' EXIT

# One snapshot of everything: nothing waits for it, and it waits for nothing, but migrations. What PostgreSQL itself forgets in a crash,
# the counts of the rate limits, is left out.
pg pg_dump --format=custom --no-unlogged-table-data --lock-wait-timeout=60s --dbname="$url" </dev/null >"$unfinished" ||
	fail 'pg_dump failed. A login that row-level security binds cannot take a back-up: see docs/operations.md'
tables=$(pg pg_restore --list <"$unfinished" | grep -c ' TABLE DATA ') || fail 'what pg_dump wrote cannot be read'
sync "$unfinished"
mv "$unfinished" "$file"
say "$file: $(($(wc -c <"$file"))) bytes, $tables tables, $((SECONDS - begun)) s. SECRETS_KEY is not in it."
