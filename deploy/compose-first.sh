#!/bin/sh
# deploy/compose-first.sh [URL]: creates in a new Parley what `make run` creates: an owner, an API
# key, a demo agent and its documents. It uses only the HTTP API. It writes deploy/credentials.json,
# which only its owner can read; `make run` writes the same values to .data/credentials.json.
#
#   PARLEY_OWNER   email address of the owner
#   CREDENTIALS    another path for the file
set -eu
cd "${0%/*}"
umask 077
setting() { sed -n "s/^$1=//p" "${ENV_FILE:-.env}" 2>/dev/null; }
base=${1:-$(setting PUBLIC_URL)}
email=${PARLEY_OWNER:-owner@parley.local}
file=${CREDENTIALS:-credentials.json}
if [ -e "$file" ]; then echo "compose-first: $file exists; nothing to do" && exit 0; fi

# field NAME prints a field of the JSON on standard input.
field() { sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p" | head -n 1; }
# call METHOD PATH HEADER BODY sends a request with a JSON body and prints the response.
call() { curl -fsS -X "$1" "$base$2" -H "$3" -H 'Content-Type: application/json' -d "$4"; }

# The service may still be starting, so wait until it is ready.
tries=0
until curl -fsS -o /dev/null "$base/readyz" 2>/dev/null; do
	tries=$((tries + 1))
	[ "$tries" -lt 180 ] || { echo "compose-first: no service is ready at $base" >&2 && exit 1; }
	sleep 1
done

password=$(head -c 18 /dev/urandom | base64 | tr '+/' '-_')
account=$(call POST /api/auth/signup 'Accept: application/json' '{"email":"'"$email"'","password":"'"$password"'","name":"Owner"}') || {
	echo "compose-first: no account was created for $email; if an earlier attempt has created it, set PARLEY_OWNER to another address" >&2
	exit 1
}
token=$(printf %s "$account" | field token)
organization=$(printf %s "$account" | sed -n 's/.*"id": *"\(org_[^"]*\)".*/\1/p')
key=$(call POST /api/keys "Authorization: Bearer $token" '{"name":"first key","scope":"organization"}' | field key)
curl -fsS -o /dev/null -X POST "$base/api/knowledge/samples" -H "x-api-key: $key"
call POST /api/agents "x-api-key: $key" '{"name":"Echo agent","description":"Repeats each message: for tests and benchmarks.","systemPrompt":"Repeat the message.",
	"model":"offline/echo","allowedCallers":["user","system"],
	"suggestions":["Hello! Who is there?","Repeat this sentence word for word."]}' >/dev/null
agent=$(call POST /api/agents "x-api-key: $key" '{"name":"Demo agent","description":"Answers chats and automations; change it or create another one.",
	"systemPrompt":"You are a helpful agent. Answer briefly and cite your sources.","allowedCallers":["user","system"],
	"tools":{"webSearch":{"enabled":true},"codeExecution":{"enabled":true},"knowledge":{"enabled":true},"voice":{"enabled":true}},
	"suggestions":["How long is the guarantee on a lamp?","What bulb do table lamps take?","How do I clean a glass shade?",
	"Compute the squares of 1 to 10 and plot them."]}' |
	sed -n 's/.*"id": *"\(ag_[^"]*\)".*/\1/p')
cat >"$file.new" <<END
{
  "baseUrl": "$base",
  "apiKey": "$key",
  "organizationId": "$organization",
  "agentId": "$agent",
  "loginUrl": "$base/login",
  "email": "$email",
  "password": "$password"
}
END
mv "$file.new" "$file"
echo "compose-first: $file has the URL, an API key, the demo agent's id and the owner's login"
