package tool

import (
	"context"
	"errors"

	"parley/shared/domain"
)

// Backend carries the calls of one kind of tool out, in a tool worker; safe for concurrent use.
type Backend interface {
	// Kind is one of the contract's: webSearch, httpRequest, mcp, codeExecution, knowledge.
	Kind() string
	// Call carries a call out. Its error is an *Error, ctx's, or internal: then the model is told no more than that
	// the tool failed. After Sending was called, an error other than an *Error with NotSent means that nobody knows
	// whether the effect happened.
	Call(ctx context.Context, req Request) (Result, error)
}

// Lister is a backend whose tools are decided on elsewhere, and must be asked for.
type Lister interface {
	List(ctx context.Context, req Request) ([]Spec, error)
}

// Request is a call with everything that a backend may know; ids come from the capability, never from the model.
type Request struct {
	OrganizationID string
	RunID          string
	TargetID       string // agent or template
	Fence          int64
	Config         domain.Config // of the version that the run was accepted with; secrets are sealed
	Call           Call
	// EffectKey goes out as Idempotency-Key with whatever has a side effect; "" when the call has none.
	EffectKey string
	// Sending must be called just before the first byte of something with a side effect leaves, and nothing may
	// leave when it fails. It is nil when the call has no entry in the effect ledger.
	Sending func(ctx context.Context) error
	// Keep keeps a text that was read and gives its source id.
	Keep func(ctx context.Context, source domain.Source) (id string, err error)
	// Files are those of the run's session.
	Files Files
	// Documents are the organization's, as far as the agent may read them.
	Documents Documents
}

// Documents are an organization's, to an agent: those that its knowledge tool may search, none where it has no such tool.
type Documents interface {
	// Give notes that the run is given text of documents, and must come before that: what a document's deletion takes with it is
	// told by these notes. It gives those documents that are still there, in their order. It fails with ErrStale.
	Give(ctx context.Context, ids []string) ([]string, error)
	// Find gives the documents of these ids that can be read, in their order; others are left out, whyever.
	Find(ctx context.Context, ids []string) ([]domain.Document, error)
	// Read gives the originals of documents in their order, and notes them as Give does. It fails with ErrStale, or with ErrGone.
	Read(ctx context.Context, documents []domain.Document) ([][]byte, error)
}

// Files are what tool calls of a session have made, and where a call's own are kept.
type Files interface {
	// Session gives the newest file of each name that the session's calls before this one have left, by name. It is the
	// same whenever this call is made again.
	Session(ctx context.Context) ([]domain.File, error)
	// Read gives the contents of files of the session, in their order.
	Read(ctx context.Context, files []domain.File) ([][]byte, error)
	// Keep keeps what the call has made in place of what it had kept before, all or nothing. removed are names that are no
	// longer among the session's files. It fails with ErrStale, or with ErrFilesFull.
	Keep(ctx context.Context, made []NewFile, removed []string) ([]domain.File, error)
}

// NewFile is a file that a call has made.
type NewFile struct {
	Name     string // in the working folder, with slashes
	MIMEType string
	Content  []byte
}

// ErrFilesFull says that the organization keeps as many bytes of files as it may, or the session as many names.
var ErrFilesFull = errors.New("the file quota of the session or the organization is exceeded")

// ErrGone says that a document went while it was asked for.
var ErrGone = errors.New("the document no longer exists")

// ErrStale says that the run is no longer held by whoever asked: nothing may be sent for it.
var ErrStale = errors.New("the run is no longer leased under this fence")
