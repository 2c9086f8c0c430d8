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
	// Call executes a call. Its error is an *Error, ctx's error, or any other error, for which the
	// model sees only "the tool failed". If Sending was called before an error, the side effect may
	// have happened. The only exception is an *Error with NotSent.
	Call(ctx context.Context, req Request) (Result, error)
}

// Lister is a backend whose tools are defined by other servers, so that they must be listed.
type Lister interface {
	List(ctx context.Context, req Request) (Listing, error)
}

// Listing contains the tools of all servers that responded, and the servers that did not.
type Listing struct {
	// The specs are in the order of the agent's servers.
	Specs []Spec
	// Each entry has a reason that may be shown to the caller.
	Absent []contract.AbsentServer
}

// Request is a call, with all data that a backend may use. Its ids come from the signed capability
// and never from the model.
type Request struct {
	OrganizationID string
	RunID          string
	TargetID       string // id of the agent or template
	Fence          int64
	Config         domain.Config // the configuration with which the run was accepted; its secrets are encrypted
	Call           Call
	// EffectKey is sent as the header Idempotency-Key with every request that has a side effect. It
	// is "" if the call has no side effect.
	EffectKey string
	// Sending must be called just before the first byte of a request with a side effect is sent. If
	// it returns an error, the request must not be sent. It is nil if the call has no entry in the
	// effect ledger.
	Sending func(ctx context.Context) error
	// Keep stores a text that the call has read, and returns the text's source id.
	Keep func(ctx context.Context, source domain.Source) (id string, err error)
	// Files contains the files of the run's session.
	Files Files
	// Documents contains the organization's documents that the agent may read.
	Documents Documents
}

// Documents gives access to the documents that the agent's knowledge tool may search. There are
// none if the agent does not have that tool.
type Documents interface {
	// Give records that the run receives text of documents. It must be called before the model
	// receives the text, because these records show which runs contain text of a deleted document.
	// It returns the ids of documents that still exist, in order, or ErrStale.
	Give(ctx context.Context, ids []string) ([]string, error)
	// Find returns the documents with these ids that the agent may read, in order. It omits all
	// others.
	Find(ctx context.Context, ids []string) ([]domain.Document, error)
	// Read returns the original contents of documents, in order, and records them like Give. It
	// fails with ErrStale or ErrGone.
	Read(ctx context.Context, documents []domain.Document) ([][]byte, error)
}

// Files gives access to the files of a session, which tool calls have created. It also stores files
// for the current call.
type Files interface {
	// Session returns the session's files from all other calls, sorted by name. Of several files
	// with the same name it returns the newest. When the same call is repeated, the result is the
	// same.
	Session(ctx context.Context) ([]domain.File, error)
	// Read returns the contents of files of the session, in order.
	Read(ctx context.Context, files []domain.File) ([][]byte, error)
	// Keep stores the files that the call has created, either all or none. They replace files that
	// an earlier attempt at the call stored. removed contains names to remove from the session's
	// files. Keep fails with ErrStale or ErrFilesFull.
	Keep(ctx context.Context, made []NewFile, removed []string) ([]domain.File, error)
}

// NewFile is a file that a call has created.
type NewFile struct {
	Name     string // path in the working folder, with slashes
	MIMEType string
	Content  []byte
}

// ErrFilesFull means that the organization's limit on bytes of files, or the session's limit on
// file names, is reached.
var ErrFilesFull = errors.New("the file quota of the session or the organization is exceeded")

// ErrGone means that a document was deleted or replaced while it was read.
var ErrGone = errors.New("the document no longer exists")

// ErrStale means that another worker has taken over the run. This worker must send nothing for it.
var ErrStale = errors.New("the run is no longer leased under this fence")
