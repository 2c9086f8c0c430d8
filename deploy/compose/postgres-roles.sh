#!/bin/bash
# Runs once, when PostgreSQL's data directory is initialized. It creates two logins in addition to
# the administrator: the owner, for migrations, and the service's login, which owns nothing and is
# always subject to row-level security.
set -euo pipefail
psql -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d postgres -v owner="$OWNER_PASSWORD" -v service="$SERVICE_PASSWORD" <<'SQL'
CREATE ROLE parley_app NOLOGIN;
CREATE ROLE parley_system NOLOGIN;
CREATE ROLE parley_owner LOGIN PASSWORD :'owner';
CREATE ROLE parley_service LOGIN PASSWORD :'service';
GRANT parley_app, parley_system TO parley_owner;
GRANT parley_app TO parley_service;
CREATE DATABASE parley OWNER parley_owner;
REVOKE ALL ON DATABASE parley FROM PUBLIC;
GRANT CONNECT ON DATABASE parley TO parley_service;
\connect parley
ALTER SCHEMA public OWNER TO parley_owner;
SQL
