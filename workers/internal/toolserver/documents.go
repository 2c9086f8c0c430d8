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

// errOtherDocument says that a document's content is not as the record of it has it.
var errOtherDocument = errors.New("the document's content does not match its record")

// documents are those of a call's organization, as its backend may know them: what the configuration lets the agent's knowledge
// tool read, whatever the model writes.
type documents struct {
	call      *call
	knowledge *domain.KnowledgeTool
}

// Give notes documents as given to the run, and gives those that are still there.
func (d documents) Give(ctx context.Context, ids []string) ([]string, error) {
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
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !slices.Contains(given, id) }), nil
}

// Find gives the documents that can be read and that the agent may read.
func (d documents) Find(ctx context.Context, ids []string) ([]domain.Document, error) {
	var found []domain.Document
	for _, id := range ids {
		one, err := d.call.server.deps.Documents.DocumentByID(ctx, d.call.capability.OrganizationID, id)
		switch {
		case apierr.CodeFor(err) == apierr.NotFound:
		case err != nil:
			return nil, fmt.Errorf("finding document: %w", err)
		case one.Status == domain.DocumentReady && d.allows(one):
			found = append(found, one)
		}
	}
	return found, nil
}

// allows reports whether the agent may read a document.
func (d documents) allows(one domain.Document) bool {
	k := d.knowledge
	if k == nil || !k.Enabled || len(k.DocumentIDs) > 0 && !slices.Contains(k.DocumentIDs, one.ID) {
		return false
	}
	for key, value := range k.Metadata {
		if has, ok := one.Metadata[key]; !ok || has != value {
			return false
		}
	}
	return true
}

// Read gives originals, once they are noted.
func (d documents) Read(ctx context.Context, list []domain.Document) ([][]byte, error) {
	ids := make([]string, len(list))
	for n, one := range list {
		if ids[n] = one.ID; !d.allows(one) {
			return nil, tool.ErrGone
		}
	}
	given, err := d.Give(ctx, ids)
	if err != nil {
		return nil, err
	}
	if len(given) != len(ids) {
		return nil, tool.ErrGone
	}
	contents := make([][]byte, len(list))
	for n, one := range list {
		if contents[n], err = d.readOne(ctx, one); err != nil {
			return nil, fmt.Errorf("reading %s: %w", one.ID, err)
		}
	}
	return contents, nil
}

// readOne gives an original, and no more of it than its record says.
func (d documents) readOne(ctx context.Context, one domain.Document) ([]byte, error) {
	now, content, err := d.call.server.deps.Documents.OpenDocument(ctx, d.call.capability.OrganizationID, one.ID)
	switch {
	case apierr.CodeFor(err) == apierr.NotFound:
		return nil, tool.ErrGone
	case err != nil:
		return nil, fmt.Errorf("opening document: %w", err)
	}
	defer func() { _ = content.Close() }()
	if now.Bytes != one.Bytes { // replaced since it was found
		return nil, tool.ErrGone
	}
	raw, err := io.ReadAll(io.LimitReader(content, one.Bytes+1))
	switch {
	case apierr.CodeFor(err) == apierr.NotFound:
		return nil, tool.ErrGone
	case err == nil && int64(len(raw)) != one.Bytes:
		return nil, errOtherDocument
	}
	return raw, err
}
