#!/bin/bash
# deploy/restore.sh FILE: restores a backup from deploy/backup.sh into an empty database, and creates the roles that
# the backup needs. The restore is atomic: if it fails, the database stays empty. docs/operations.md has the steps
# before and after.
#
#   DATABASE_URL   the empty database, as a superuser of its server; the database's owner will run migrations
#   PG_RUN         prefix of the pg_restore and psql commands, as for backup.sh
set -euo pipefail
# shellcheck source=deploy/database.sh
. "$(dirname "${BASH_SOURCE[0]}")/database.sh"
[ $# = 1 ] || { echo 'usage: deploy/restore.sh FILE' >&2 && exit 2; }
file=$1 begun=$SECONDS
[ -n "${DATABASE_URL:-}" ] || fail 'set DATABASE_URL to the URL of an empty database'
locate

# sql runs an SQL script from standard input and prints the values without formatting. Arguments
# such as -v name=value set variables of the script.
sql() { pg psql -X -q -A -t -v ON_ERROR_STOP=1 -d "$url" "$@"; }

list=$(pg pg_restore --list <"$file") || fail "$file is not a backup"
found=$(sql <<<"SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace") || fail 'cannot query the database'
[ "$found" = 0 ] || fail 'the database is not empty'

# The owners of the objects in the backup. In the backup's table of contents, each line ends with the
# name of an owner, which may be empty. Owners that do not exist on this server are created for the
# restore and dropped after it.
owners=$(sed '/^;/d; s/.* //' <<<"$list" | sort -u)
made=()
away() {
	local owner
	for owner in ${made[@]+"${made[@]}"}; do
		sql -v name="$owner" <<'SQL' || say "the role $owner could not be dropped"
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
# The query planner needs statistics, which a backup does not contain.
sql <<<ANALYZE
say "$(sql <<<"SELECT count(*) || ' runs, ' || (SELECT count(*) FROM open_runs) || ' of them open, of ' ||
	(SELECT count(*) FROM organizations) || ' organizations' FROM runs"), $((SECONDS - begun)) s. Next: parley migrate"
