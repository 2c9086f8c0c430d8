package tool

import (
	"context"
	"errors"

	"parley/shared/domain"
)

// Backend executes the calls of one kind of tool in a tool worker. It is safe for concurrent use.
type Backend interface {
	// Kind returns one of the contract's kinds: webSearch, httpRequest, mcp, codeExecution,
	// knowledge.
	Kind() string
	// Call executes a call. Its error is an *Error, ctx's error, or internal; the model sees only
	// "the tool failed" for an internal one. After Sending was called, any error except an *Error
	// with NotSent means that the effect may or may not have happened.
	Call(ctx context.Context, req Request) (Result, error)
}

// Lister is a backend whose tools are defined elsewhere and must be listed.
type Lister interface {
	List(ctx context.Context, req Request) ([]Spec, error)
}

// Request is a call with everything that a backend may use. Its ids come from the capability, never
// from the model.
type Request struct {
	OrganizationID string
	RunID          string
	TargetID       string // agent or template
	Fence          int64
	Config         domain.Config // the version with which the run was accepted; secrets are sealed
	Call           Call
	// EffectKey is sent as Idempotency-Key with every request that has a side effect; "" if the
	// call has none.
	EffectKey string
	// Sending must be called just before the first byte of a request with a side effect leaves. If
	// it fails, the request must not leave. It is nil if the call has no entry in the effect
	// ledger.
	Sending func(ctx context.Context) error
	// Keep stores a text that was read and returns its source id.
	Keep func(ctx context.Context, source domain.Source) (id string, err error)
	// Files are the files of the run's session.
	Files Files
	// Documents are the organization's documents that the agent may read.
	Documents Documents
}

// Documents gives access to the documents that the agent's knowledge tool may search. It is empty
// if the agent has no such tool.
type Documents interface {
	// Give records that the run is given text of the documents. It must be called before the text
	// is given, because deleting a document uses these records. It returns the ids that still
	// exist, in order, or ErrStale.
	Give(ctx context.Context, ids []string) ([]string, error)
	// Find returns the readable documents with these ids, in order. It omits all others.
	Find(ctx context.Context, ids []string) ([]domain.Document, error)
	// Read returns the original contents of documents, in order, and records them as Give does. It
	// fails with ErrStale or ErrGone.
	Read(ctx context.Context, documents []domain.Document) ([][]byte, error)
}

// Files gives access to the files that tool calls of a session have made, and stores a call's own.
type Files interface {
	// Session returns the session's files from the calls before this one: for each name, the
	// newest, ordered by name. The result is the same when this call is repeated.
	Session(ctx context.Context) ([]domain.File, error)
	// Read returns the contents of files of the session, in order.
	Read(ctx context.Context, files []domain.File) ([][]byte, error)
	// Keep stores the files that the call has made, all or none. They replace the files that it
	// stored before. removed are names to remove from the session's files. It fails with ErrStale
	// or ErrFilesFull.
	Keep(ctx context.Context, made []NewFile, removed []string) ([]domain.File, error)
}

// NewFile is a file that a call has made.
type NewFile struct {
	Name     string // path in the working folder, with slashes
	MIMEType string
	Content  []byte
}

// ErrFilesFull means that the organization's limit on bytes or the session's limit on names is
// reached.
var ErrFilesFull = errors.New("the file quota of the session or the organization is exceeded")

// ErrGone means that a document was deleted or replaced while it was read.
var ErrGone = errors.New("the document no longer exists")

// ErrStale means that the run has moved to another worker. Nothing may be sent for it.
var ErrStale = errors.New("the run is no longer leased under this fence")
