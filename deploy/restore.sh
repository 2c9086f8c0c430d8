#!/bin/bash
# deploy/restore.sh FILE: puts a back-up of deploy/backup.sh into an empty database, with the roles that it needs. All or nothing: what
# fails leaves the database empty. docs/operations.md says what comes before and after.
#
#   DATABASE_URL   the empty database, as a superuser of its server; migrations will act as the database's owner
#   PG_RUN         words to put before pg_restore and psql, as for backup.sh
set -euo pipefail
# shellcheck source=deploy/database.sh
. "$(dirname "${BASH_SOURCE[0]}")/database.sh"
[ $# = 1 ] || { echo 'usage: deploy/restore.sh FILE' >&2 && exit 2; }
file=$1 begun=$SECONDS
[ -n "${DATABASE_URL:-}" ] || fail 'set DATABASE_URL to that of an empty database'
locate

# sql runs a script, whose variables are arguments like -v name=value, and prints bare values.
sql() { pg psql -X -q -A -t -v ON_ERROR_STOP=1 -d "$url" "$@"; }

list=$(pg pg_restore --list <"$file") || fail "$file is no back-up"
found=$(sql <<<"SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace") || fail 'the database cannot be asked'
[ "$found" = 0 ] || fail 'the database is not empty'

# Whose things are: the last word of a line of the list, of some none. An owner whom this server does not know is made, and goes when all is there.
owners=$(sed '/^;/d; s/.* //' <<<"$list" | sort -u)
made=()
away() {
	local owner
	for owner in ${made[@]+"${made[@]}"}; do
		sql -v name="$owner" <<'SQL' || say "the role $owner is left"
SELECT format('REASSIGN OWNED BY %I TO %I', :'name', pg_get_userbyid(datdba)) FROM pg_database WHERE datname = current_database() \gexec
DROP OWNED BY :"name";
DROP ROLE :"name";
SQL
	done
	made=()
}
trap away EXIT
for role in parley_app parley_system $owners; do
	known=$(sql -v name="$role" <<<"SELECT count(*) FROM pg_roles WHERE rolname = :'name'")
	[ "$known" = 0 ] || continue
	sql -v name="$role" <<<'CREATE ROLE :"name" NOLOGIN'
	case $role in parley_app | parley_system) ;; *) made+=("$role") ;; esac
done
sql <<<"SELECT format('GRANT parley_app, parley_system TO %I', pg_get_userbyid(datdba)) FROM pg_database WHERE datname = current_database() \gexec"

pg pg_restore --exit-on-error --single-transaction --dbname="$url" <"$file" || fail 'nothing was restored'
away
# Plans are made from statistics, which are in no back-up.
sql <<<ANALYZE
say "$(sql <<<"SELECT count(*) || ' runs, ' || (SELECT count(*) FROM open_runs) || ' of them open, of ' ||
	(SELECT count(*) FROM organizations) || ' organizations' FROM runs"), $((SECONDS - begun)) s. Next: parley migrate"
