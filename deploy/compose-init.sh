#!/bin/sh
# deploy/compose-init.sh: creates the secrets for compose.yaml in deploy/.env (or ENV_FILE), which
# only its owner can read. It keeps existing values, so run it again after each upgrade. Keep a copy
# of SECRETS_KEY separately from the backups, because stored secrets are lost without the key.
set -eu
cd "${0%/*}"
umask 077
file=${ENV_FILE:-.env}
[ -e "$file" ] || : >"$file"

# ensure NAME VALUE adds a setting to the file unless the file contains it.
ensure() { grep -q "^$1=" "$file" || printf '%s=%s\n' "$1" "$2" >>"$file"; }

# password prints a random password. It begins with a letter, so that nats-server parses it as a
# word.
password() { printf 'p%s' "$(head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n')"; }

ensure COMPOSE_PROJECT_NAME parley
ensure PORT 8080
ensure PUBLIC_URL "http://127.0.0.1:$(sed -n 's/^PORT=//p' "$file")"
ensure SECRETS_KEY "$(head -c 32 /dev/urandom | base64)"
for name in POSTGRES OWNER SERVICE NATS_INGRESS NATS_AGENT NATS_TOOL NATS_INGEST NATS_VOICE NATS_SWEEP NATS_OPERATOR NATS_ADMIN; do
	ensure "${name}_PASSWORD" "$(password)"
done
if ! grep -q '^DEFAULT_MODEL=' "$file"; then
	ensure DEFAULT_MODEL offline
	printf 'compose-init: DEFAULT_MODEL=offline was added to %s: agents that name no model use it. Change it when you add a provider.\n' "$file"
fi
printf 'compose-init: %s is complete. Next: docker compose -f deploy/compose.yaml up -d --build, then deploy/compose-first.sh\n' "$file"
