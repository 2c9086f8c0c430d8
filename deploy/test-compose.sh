#!/bin/bash
# deploy/test-compose.sh: tests deploy/compose.yaml; `make test-compose` runs it. It builds the
# images, starts them under a separate project name with separate secrets, and follows the steps of
# the README. Then it kills every container once while triggers with keys arrive. Each key must have
# exactly one completed run. At the end, even after a failure, it stops everything.
#
# If the public base images cannot be pulled, deploy/docker/local.sh builds them (needs root and
# Debian).
#
#   LOCAL_IMAGES=1   builds the base images without trying to pull them
#   BUILD=no         uses the existing images
#   KEEP=1           leaves everything running
#   COMPOSE          the command, by default `docker compose`; for Debian's older version
#                    'docker-compose --compatibility'
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
read -ra compose <<<"${COMPOSE:-docker compose}"
work=$(mktemp -d)
export ENV_FILE=$work/env CREDENTIALS=$work/credentials.json
export PORT=${PORT:-18080} COMPOSE_PROJECT_NAME=parley-test-$$
started=$SECONDS
say() { printf '[%4d s] %s\n' $((SECONDS - started)) "$*"; }
dc() { (cd deploy && "${compose[@]}" -f compose.yaml --env-file "$ENV_FILE" "$@"); }
fail() {
	say "FAILED: $*"
	exit 1
}

finish() {
	local code=$?
	if [ "$code" != 0 ]; then dc logs --tail 40 >"$work/logs" 2>&1 || true && tail -n 150 "$work/logs"; fi
	[ -n "${KEEP:-}" ] && say "left running; settings in $ENV_FILE, credentials in $CREDENTIALS" && return
	dc down --volumes --timeout 5 >/dev/null 2>&1 || true
	rm -rf "$work"
}
trap finish EXIT

printf 'COMPOSE_PROJECT_NAME=%s\nPORT=%s\n' "$COMPOSE_PROJECT_NAME" "$PORT" >"$ENV_FILE"
deploy/compose-init.sh >/dev/null
if [ -n "${LOCAL_IMAGES:-}" ] || ! timeout 120 docker pull -q haproxy:3.2 >/dev/null 2>&1; then
	say 'building base images on this machine'
	deploy/docker/local.sh >>"$ENV_FILE"
fi

say 'building and starting'
[ "${BUILD:-}" = no ] || dc build >"$work/build" 2>&1 || { tail -n 40 "$work/build" && fail 'the images do not build'; }
dc up -d >"$work/up" 2>&1 || { tail -n 20 "$work/up" && fail 'the services do not start'; }
deploy/compose-first.sh "http://127.0.0.1:$PORT" >/dev/null
say 'ready, with an owner and a demo agent'

# rows QUERY prints the result of an SQL query.
rows() { dc exec -T postgres psql -U postgres -d parley -qtAc "$1" 2>/dev/null; }

# --- the steps of the README
credential() { sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p" "$CREDENTIALS"; }
base=$(credential baseUrl) key=$(credential apiKey) agent=$(credential agentId)
field() { sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p" | head -n 1; }
want() { # NAME PATTERN; the response is on standard input
	local answer
	answer=$(cat)
	grep -q "$2" <<<"$answer" || fail "$1: $answer"
	say "$1: ok"
}
curl -sS "$base/api/internal/run-automation" -H "x-api-key: $key" -H 'x-trigger-type: schedule' -H 'x-automation-id: nightly' \
	-H 'Content-Type: application/json' -d '{"target":"'"$agent"'","input":{"message":"What is 6 * 7?"},"idempotencyKey":"readme"}' | want 'an automation' '"status": *"completed".*42'
[ "$(rows "SELECT count(*) FROM steps WHERE step->'tool'->'call'->>'name' = 'codeExecution' AND step->'tool'->'call'->'output'->>'stdout' = E'42\\n'")" = 1 ] ||
	fail "the agent's code did not run in a sandbox"
say "the agent's code ran in a sandbox: ok"
curl -sSN "$base/api/agents?action=chat&template=tpl_support" -H 'x-tenant-id: tenant_demo' -H 'Content-Type: application/json' \
	-d '{"sessionId":"s1","message":"Hello","stream":true}' | want 'a streamed chat in demo mode' 'event: run.completed'
for _ in $(seq 60); do
	curl -sS "$base/api/knowledge" -H "x-api-key: $key" >"$work/documents"
	grep -qE '"status": *"(queued|processing)"' "$work/documents" || break
	sleep 1
done
curl -sS "$base/api/agents?action=chat&id=$agent" -H "x-api-key: $key" -H 'Content-Type: application/json' \
	-d '{"sessionId":"d1","message":"How long do I have to return a lamp?"}' | want 'an answer from documents' '"documentId"'
curl -sS "$base/api/knowledge?query=lamp" -H "x-api-key: $key" | want 'a search' '"documentId"'
curl -sS "$base/dashboard/" -L | want 'the dashboard' '<html'
curl -sS "$base/docs" -L | want 'the documentation' '<html'

# running prints the IDs of the running containers. They do not include the container of migrate,
# which has exited.
running() { docker inspect -f '{{if .State.Running}}{{.Id}}{{end}}' $(dc ps -q) | grep .; }

# --- no container runs as root
for id in $(running); do
	name=$(docker inspect -f '{{.Name}}' "$id")
	[ "$(docker top "$id" -eo pid,uid | awk 'NR > 1 && $2 == 0' | wc -l)" = 0 ] || fail "$name runs a process as root"
	[ "$(docker inspect -f '{{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}}' "$id")" = 'true [ALL]' ] || fail "$name has more rights than it needs"
done
say 'no container runs as root, has capabilities, or may write to its root file system'

# --- any container may die
echoes=$(curl -sS "$base/api/agents?q=Echo" -H "x-api-key: $key" | grep -o 'ag_[a-z0-9]*' | head -n 1)
# trigger KEY repeats a trigger until the service answers, and prints the ID of the run.
trigger() {
	local status
	for _ in $(seq 150); do
		status=$(curl -s -m 70 -o "$work/$1" -w '%{http_code}' "$base/api/internal/run-automation" -H "x-api-key: $key" -H 'Content-Type: application/json' \
			-d '{"target":"'"$echoes"'","input":{"message":"'"$1"'"},"idempotencyKey":"'"$1"'"}') || status=000
		if [ "$status" = 200 ]; then
			grep -q '"status": *"completed"' "$work/$1" && grep -q "echo: $1" "$work/$1" && grep -o 'run_[a-z0-9]*' "$work/$1" | head -n 1 && return
			break
		fi
		sleep 0.4
	done
	echo "LOST $1: $status $(head -c 300 "$work/$1" 2>/dev/null)"
}
# crash ID kills the first process of a container, as a crash would. The engine then restarts the
# container. If crash has no permission to kill the process, it uses `docker kill` and then starts
# the container.
crash() {
	local pid
	pid=$(docker inspect -f '{{.State.Pid}}' "$1")
	if [ "$pid" -gt 1 ] && [ "$(id -u)" = 0 ] && kill -9 "$pid" 2>/dev/null; then return; fi
	docker kill "$1" >/dev/null && docker start "$1" >/dev/null # after docker kill, the engine does not restart a container
}
sent=0
for id in $(running); do
	name=$(docker inspect -f '{{.Name}}' "$id") began=$SECONDS
	for n in $(seq 10); do trigger "kill-${id:0:8}-$n" >"$work/run-${id:0:8}-$n" & done
	crash "$id"
	for n in $(seq 11 20); do trigger "kill-${id:0:8}-$n" >"$work/run-${id:0:8}-$n" & done
	wait
	if grep -h LOST "$work"/run-"${id:0:8}"-*; then fail "$name was killed, and triggers were lost"; fi
	sent=$((sent + 20))
	for _ in $(seq 120); do
		[ "$(docker inspect -f '{{.State.Running}} {{if .State.Health}}{{.State.Health.Status}}{{else}}healthy{{end}}' "$id")" = 'true healthy' ] && break
		sleep 0.5
	done
	[ "$(docker inspect -f '{{.State.Running}}' "$id")" = true ] || fail "$name did not restart"
	say "$name killed: 20 of 20 triggers completed, after $((SECONDS - began)) s"
done
runs=$(rows "SELECT count(*) || ' ' || count(*) FILTER (WHERE status = 'completed') FROM runs WHERE input->>'message' LIKE 'kill-%'")
[ "$runs" = "$sent $sent" ] || fail "runs and completed runs = '$runs', want '$sent $sent'"
[ "$(cat "$work"/run-* | sort -u | wc -l)" = "$sent" ] || fail 'keys share runs'
say "$sent keys, $sent runs, all completed: none lost, none doubled"
