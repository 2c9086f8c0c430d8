package tool

import (
	"context"
	"errors"

	"parley/shared/contract"
	"parley/shared/domain"
)

// Backend executes the calls of one kind of tool in a tool worker. It is safe for concurrent use.
type Backend interface {
	// Kind returns one of the contract's kinds: webSearch, httpRequest, mcp, codeExecution,
	// knowledge.
	Kind() string
	// Call executes a call. Its error is an *Error, ctx's error, or any other error. For an error
	// of this last kind, the model sees only "the tool failed". If Sending was called and Call
	// fails, the side effect may have happened, except if the error is an *Error with NotSent.
	Call(ctx context.Context, req Request) (Result, error)
}

// Lister is implemented by backends whose tools are defined by other servers. List requests the
// tools from these servers.
type Lister interface {
	List(ctx context.Context, req Request) (Listing, error)
}

// Listing contains the tools of all servers that responded, and an entry for each server that did
// not.
type Listing struct {
	// The specs are in the order of the agent's servers.
	Specs []Spec
	// Absent contains the servers that did not respond. The reason in each entry may be shown to
	// the caller.
	Absent []contract.AbsentServer
}

// Request is a call with all data that a backend may use. The ids come from the signed capability
// and never from the model.
type Request struct {
	OrganizationID string
	RunID          string
	TargetID       string // id of the agent or template
	Fence          int64
	Config         domain.Config // configuration of the agent when the run was accepted; its secrets are encrypted
	Call           Call
	// EffectKey is sent in the header Idempotency-Key of every request that has a side effect. It
	// is "" if the call has no side effect.
	EffectKey string
	// Sending must be called immediately before the first byte of a request with a side effect is
	// sent. If it returns an error, the request must not be sent. Sending is nil if the effect
	// ledger has no entry for the call.
	Sending func(ctx context.Context) error
	// Keep stores a text that was read during the call, and returns the text's source id.
	Keep func(ctx context.Context, source domain.Source) (id string, err error)
	// Files contains the files of the run's session.
	Files Files
	// Documents contains the organization's documents that the agent may read.
	Documents Documents
}

// Documents gives access to the documents that the agent's knowledge tool may search. If the agent
// does not have that tool, there are no such documents.
type Documents interface {
	// Give records that the run receives text of documents. It must be called before the model
	// receives the text: the records show which runs contain text of a document that is deleted
	// later. Give returns the ids of the documents that still exist, in order, or ErrStale.
	Give(ctx context.Context, ids []string) ([]string, error)
	// Find returns the documents with the given ids, in order. It omits those that do not exist or
	// that the agent may not read.
	Find(ctx context.Context, ids []string) ([]domain.Document, error)
	// Read returns the original contents of documents, in order, and records them in the same way
	// as Give. It fails with ErrStale or ErrGone.
	Read(ctx context.Context, documents []domain.Document) ([][]byte, error)
}

// Files gives access to the files that tool calls have created in a session. It also stores files
// for the current call.
type Files interface {
	// Session returns the session's files from all calls except the current one, sorted by name. If
	// several files have the same name, Session returns the newest. A repeated call gets the same
	// result.
	Session(ctx context.Context) ([]domain.File, error)
	// Read returns the contents of the given files of the session, in order.
	Read(ctx context.Context, files []domain.File) ([][]byte, error)
	// Keep stores the files that the call has created: all of them or, after an error, none. They
	// replace the files that an earlier attempt at the call has stored. The argument removed lists
	// names of files to remove from the session. Keep fails with ErrStale or ErrFilesFull.
	Keep(ctx context.Context, made []NewFile, removed []string) ([]domain.File, error)
}

// NewFile is a file that a call has created.
type NewFile struct {
	Name     string // path relative to the working folder, with slashes
	MIMEType string
	Content  []byte
}

// ErrFilesFull means that the organization's quota of file bytes or the session's quota of file
// names is exceeded.
var ErrFilesFull = errors.New("the file quota of the session or the organization is exceeded")

// ErrGone means that a document was deleted or replaced while it was read.
var ErrGone = errors.New("the document no longer exists")

// ErrStale means that another worker has taken over the run. This worker must no longer send
// requests for the run.
var ErrStale = errors.New("this worker no longer holds the run")
