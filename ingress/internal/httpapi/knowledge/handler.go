package knowledge

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/transfer"
	"parley/ingress/internal/ratelimit"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/blobdb"
	"parley/shared/store/knowledgedb"
)

// DocumentEraser deletes documents and the copies of their passages that runs have stored. The
// dispatcher implements it, because the deletion of a document also ends and erases runs.
type DocumentEraser interface {
	DeleteDocument(ctx context.Context, organizationID, documentID string) error
}

// Deps contains the dependencies and settings of the Handler. They are set once and never change.
type Deps struct {
	httpx.SessionChecks
	*httpx.References
	// Contents of documents.
	BlobsDB *blobdb.Store
	// Documents and their passages.
	KnowledgeDB *knowledgedb.Store
	Dispatch    DocumentEraser
	// Notifies workers of queued documents.
	Jobs JobNotifier
	// Calls workers, for searches and pictures.
	Searches SearchCaller
	// Signs the claims of calls to workers.
	Signer ClaimSigner
	// Limits simultaneous responses with contents, pages and pictures.
	Downloads *transfer.Limiter
	Limits    knowledgedb.DocumentLimits // limits per organization
	Log       zerolog.Logger
}

// Handler handles the requests to /api/knowledge. There is one per process. It is safe for
// concurrent use. Its limiters bound the memory and the connections that uploads occupy.
type Handler struct {
	Deps
	Small transfer.Limiter // limits bodies that are small or of unknown size
	// Limits forms with files.
	Uploads     transfer.Limiter
	MediumTexts transfer.Limiter // limits medium-sized JSON bodies
	Texts       transfer.Limiter // limits large JSON bodies

	// Cache of rendered pages.
	pictures *pictureCache
	renders  *ratelimit.Failures // counts renderings requested from workers, by organization
}

// New returns a Handler.
func New(deps Deps) *Handler {
	return &Handler{
		Deps: deps, Small: transfer.Limiter{Policy: transfer.SmallBodies}, Uploads: transfer.Limiter{Policy: transfer.Documents},
		MediumTexts: transfer.Limiter{Policy: transfer.MediumTexts}, Texts: transfer.Limiter{Policy: transfer.DocumentTexts},
		pictures: newPictureCache(), renders: ratelimit.NewFailures(picturesPerMinute, time.Minute, time.Now),
	}
}

// Routes returns the routes of the handler. All routes require a user or an API key. Find looks up
// the document before the parameters and the body are checked.
func (h *Handler) Routes() []httpx.Route {
	const member, admin = domain.RoleMember, domain.RoleAdmin
	document := httpx.InOrganization(h.KnowledgeDB.DocumentByID, id.Document)
	return []httpx.Route{
		{
			Method: "GET", Path: "/api/knowledge", Need: auth.NeedUser, Role: member,
			Find: document, List: httpx.Params{"q", "status", "query", "documentId", "metadata", "limit", "cursor"},
			Beside: httpx.Params{"content", "page", "picture", "chunk"},
			Handle: httpx.Handle(h.getKnowledge),
		},
		{Method: "POST", Path: "/api/knowledge", Need: auth.NeedUser, Role: admin, Forms: true, Handle: httpx.Handle(h.addDocuments)},
		{
			Method: "POST", Path: "/api/knowledge", Action: "retry", Need: auth.NeedUser, Role: admin,
			Find: document, NoBody: true,
			Handle: httpx.Handle(h.retryDocument),
		},
		{
			Method: "PUT", Path: "/api/knowledge", Need: auth.NeedUser, Role: admin, Forms: true,
			Find:   document,
			Handle: httpx.Handle(h.putDocument),
		},
		{Method: "GET", Path: "/api/knowledge/samples", Need: auth.NeedUser, Role: member, Handle: httpx.Handle(h.listSamples)},
		{Method: "POST", Path: "/api/knowledge/samples", Need: auth.NeedUser, Role: admin, NoBody: true, Handle: httpx.Handle(h.addSamples)},
		{Method: "DELETE", Path: "/api/knowledge", Need: auth.NeedUser, Role: admin, Find: document, Handle: httpx.Handle(h.deleteDocument)},
	}
}
