// Package contract defines the protocol between ingress and workers: subjects, headers and
// messages. A job message contains the run's id and routing data, never the caller's text; a worker
// reads the run's row in PostgreSQL.
//
//	jobs.<lane>.<shard>.<run_id>   stream JOBS, work queue: job message of a dispatched run
//	runs.done.<run_id>             core: the run is terminal; read its row
//	runs.events.<run_id>           core: new events of the run, for its watchers; see EventMessage
//	runs.cancel.<run_id>           core: the run was cancelled; its worker stops
//	<inbox>.<run_id>               core: the rendered terminal run, for the waiting ingress
//	runs.readers.all               core: ingresses agree on the runs that no client watches any more
//	changes.<kind>.<org_id>        core: an organization's runs or documents have changed; read them again
package contract

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
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
	SubjectReaders = "runs.readers.all"

	HeaderReplyTo     = "Parley-Reply-To"
	HeaderTraceparent = "traceparent"
)

// Shards is the number of subjects among which a lane's organizations are divided. An operator can
// give the organizations of one shard their own consumer without changing the subjects.
const Shards = 8

// Endpoint is the part of the API in which an idempotency key is unique: a key identifies one run
// per organization and endpoint.
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

// JobSubject returns the subject of a job message.
func JobSubject(j domain.Job) string {
	// The shard is derived from the organization, so all runs of an organization are in the same
	// shard.
	h := fnv.New32a()
	_, _ = h.Write([]byte(j.OrganizationID)) // a hash never fails
	shard := strconv.Itoa(int(h.Sum32() % Shards))
	return "jobs." + string(j.Lane) + "." + shard + "." + j.RunID
}

// MsgID returns the Nats-Msg-Id of a job message. If the same dispatch is published twice, the
// stream drops the second message. A later dispatch of the run has another number, so the stream
// stores its message.
func MsgID(j domain.Job) string { return j.Dedupe + ":" + strconv.Itoa(j.DispatchNo) }

// LaneSubject returns the subject filter of a lane's consumer.
func LaneSubject(lane domain.Lane) string { return "jobs." + string(lane) + ".>" }

// RunIDFor returns the last token of a subject, which is the run id.
func RunIDFor(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

// Dedupe returns the stable part of a job's message id: a hash of the organization, the endpoint,
// and the idempotency key or, without a key, the run id. Because it depends on the organization,
// organizations cannot suppress each other's messages.
func Dedupe(org string, endpoint Endpoint, keyOrRunID string) string {
	sum := Hash(org, string(endpoint), keyOrRunID)
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}

// Hash returns the SHA-256 of parts. Each part is prefixed with its length, so that different lists
// of parts have different hashes.
func Hash(parts ...string) []byte {
	// Most parts are ids, which fit in this buffer on the stack. append allocates memory for others.
	var buffer [512]byte
	joined := buffer[:0]
	for _, p := range parts {
		joined = append(binary.BigEndian.AppendUint64(joined, uint64(len(p))), p...)
	}
	sum := sha256.Sum256(joined)
	return sum[:]
}

// Canonical returns JSON with sorted keys and without insignificant white space. Numbers keep their
// notation.
func Canonical(raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return nil
	}

	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var v any
	if decoder.Decode(&v) != nil {
		return raw // unreachable: the JSON was validated before
	}

	// Marshal sorts the keys of maps.
	out, err := json.Marshal(v)
	if err != nil {
		return raw // unreachable: decoded JSON can be encoded
	}

	return out
}
