// Package contract is what ingress and workers agree on: subjects, headers and the
// messages between them. A job on the bus carries the run's id and what routing needs,
// never the caller's text: the run's row in PostgreSQL is what a worker acts on.
//
//	jobs.<lane>.<shard>.<run_id>   stream JOBS, work queue: one doorbell for a dispatched run
//	runs.done.<run_id>             core: the run is terminal; read its row
//	runs.events.<run_id>           core: what the run has told of, for those who watch it; see EventMessage
//	runs.cancel.<run_id>           core: the run was cancelled; whoever carries it out stops
//	<inbox>.<run_id>               core: the rendered terminal run, for the ingress that waits
//	changes.<kind>.<org_id>        core: an organization's runs or documents have changed; read them again
package contract

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"strconv"
	"strings"

	"parley/shared/domain"
)

// Stream, subjects and headers of the bus.
const (
	StreamJobs     = "JOBS"
	SubjectsJobs   = "jobs.>"
	SubjectProbe   = "jobs.probe."
	SubjectDone    = "runs.done."
	SubjectCancel  = "runs.cancel."
	SubjectEvents  = "runs.events."
	SubjectChanges = "changes."

	HeaderReplyTo     = "Parley-Reply-To"
	HeaderTraceparent = "traceparent"
)

// Shards is into how many subjects a lane is split by organization, so that an operator can
// give a part of the organizations consumers of their own without a change of subjects.
const Shards = 8

// Endpoint scopes idempotency keys: one key means one run per organization and endpoint.
type Endpoint string

// The endpoints that accept runs.
const (
	EndpointAutomation  Endpoint = "run-automation"
	EndpointChat        Endpoint = "chat"
	EndpointCompletions Endpoint = "v1/chat/completions"
	EndpointResponses   Endpoint = "v1/responses"
	EndpointMCP         Endpoint = "mcp"
	EndpointRealtime    Endpoint = "v1/realtime"
)

// JobSubject is where a job's doorbell is published.
func JobSubject(j domain.Job) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(j.OrganizationID)) // a hash never fails
	shard := strconv.Itoa(int(h.Sum32() % Shards))
	return "jobs." + string(j.Lane) + "." + shard + "." + j.RunID
}

// MsgID is a job's Nats-Msg-Id: a second publication of one dispatch is dropped by the stream,
// while a legitimate redispatch has another number and passes.
func MsgID(j domain.Job) string { return j.Dedupe + ":" + strconv.Itoa(j.DispatchNo) }

// LaneSubject is the filter of a lane's consumer.
func LaneSubject(lane domain.Lane) string { return "jobs." + string(lane) + ".>" }

// RunIDFor gives the run id that ends a subject.
func RunIDFor(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

// Dedupe is the stable half of a job's message id: a hash of organization, endpoint and
// idempotency key, or run id when there is no key. It never holds the key itself, so that
// organizations cannot suppress each other's messages.
func Dedupe(org string, endpoint Endpoint, keyOrRunID string) string {
	sum := Hash(org, string(endpoint), keyOrRunID)
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}

// Hash is SHA-256 over parts, each preceded by its length so that no two lists of parts collide.
func Hash(parts ...string) []byte {
	h := sha256.New()
	var length [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(length[:], uint64(len(p)))
		_, _ = h.Write(length[:]) // a hash never fails
		_, _ = h.Write([]byte(p)) // a hash never fails
	}
	return h.Sum(nil)
}
