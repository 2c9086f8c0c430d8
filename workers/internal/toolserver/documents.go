package toolserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/workers/internal/tool"
)

// errOtherDocument means that the length of a document's content differs from the length in its
// record.
var errOtherDocument = errors.New("the document's content does not match its record")

// documents gives a backend access to documents of the call's organization. Only documents that the
// agent's knowledge tool may read are accessible, even if the model requests others.
type documents struct {
	call      *call
	knowledge *domain.KnowledgeTool
}

// Give records that the run receives text of the given documents. It returns the ids of the
// documents that still exist.
func (d documents) Give(ctx context.Context, ids []string) ([]string, error) {
	// Without documents there is nothing to record.
	if len(ids) == 0 {
		return nil, nil
	}
	given, kept, err := d.call.server.deps.Documents.GiveDocuments(ctx, d.call.held(), ids)
	switch {
	case err != nil:
		return nil, fmt.Errorf("noting documents: %w", err)
	case !kept:
		return nil, tool.ErrStale
	}
	// The database returns the ids in any order, so the given list is filtered to keep its order.
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !slices.Contains(given, id) }), nil
}

// Find returns the given documents that are ready and that the agent may read. It ignores unknown
// ids.
func (d documents) Find(ctx context.Context, ids []string) ([]domain.Document, error) {
	var found []domain.Document
	for _, id := range ids {
		doc, err := d.call.server.deps.Documents.DocumentByID(ctx, d.call.capability.OrganizationID, id)
		switch {
		// An unknown id is ignored, like a document that the agent may not read.
		case apierr.CodeFor(err) == apierr.NotFound:
		case err != nil:
			return nil, fmt.Errorf("finding document: %w", err)
		case doc.Status == domain.DocumentReady && d.allows(doc):
			found = append(found, doc)
		}
	}
	return found, nil
}

// allows reports whether the agent may read a document.
func (d documents) allows(doc domain.Document) bool {
	k := d.knowledge
	// An empty list of ids in the configuration permits all documents.
	if k == nil || !k.Enabled || len(k.DocumentIDs) > 0 && !slices.Contains(k.DocumentIDs, doc.ID) {
		return false
	}
	for key, value := range k.Metadata {
		// A document must have all configured metadata pairs. It may have other pairs, too.
		if has, ok := doc.Metadata[key]; !ok || has != value {
			return false
		}
	}
	return true
}

// Read records that the run receives the given documents, and returns their original contents.
func (d documents) Read(ctx context.Context, list []domain.Document) ([][]byte, error) {
	ids := make([]string, len(list))
	for n, doc := range list {
		if ids[n] = doc.ID; !d.allows(doc) {
			return nil, tool.ErrGone
		}
	}

	// The documents are recorded as given to the run before they are read. So even if a document is
	// deleted in between, the record names this run.
	given, err := d.Give(ctx, ids)
	if err != nil {
		return nil, err
	}
	if len(given) != len(ids) {
		return nil, tool.ErrGone
	}

	contents := make([][]byte, len(list))
	for n, doc := range list {
		if contents[n], err = d.readOne(ctx, doc); err != nil {
			return nil, fmt.Errorf("reading %s: %w", doc.ID, err)
		}
	}
	return contents, nil
}

// readOne returns the original content of a document. It fails if the document has changed after
// Find returned it.
func (d documents) readOne(ctx context.Context, doc domain.Document) ([]byte, error) {
	now, content, err := d.call.server.deps.Documents.OpenDocument(ctx, d.call.capability.OrganizationID, doc.ID)
	switch {
	case apierr.CodeFor(err) == apierr.NotFound:
		return nil, tool.ErrGone
	case err != nil:
		return nil, fmt.Errorf("opening document: %w", err)
	}

	defer func() { _ = content.Close() }()
	if now.Bytes != doc.Bytes { // the document was replaced after Find returned it
		return nil, tool.ErrGone
	}

	// One byte more than recorded is enough to detect that the content is longer.
	raw, err := io.ReadAll(io.LimitReader(content, doc.Bytes+1))
	switch {
	case apierr.CodeFor(err) == apierr.NotFound:
		return nil, tool.ErrGone
	// The limits of the sandbox were computed from the recorded size, so content of another size is
	// rejected.
	case err == nil && int64(len(raw)) != doc.Bytes:
		return nil, errOtherDocument
	}
	return raw, err
}
