package codeexec

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"parley/shared/domain"
	"parley/shared/truncate"
	"parley/workers/internal/sandbox/python"
	"parley/workers/internal/tool"
)

// documentPrefix is the prefix of document ids.
const documentPrefix = "doc_"

// lookUp returns the documents with these ids. It fails if the agent may not read all of them.
func lookUp(ctx context.Context, documents tool.Documents, ids []string) ([]domain.Document, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := documents.Find(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		// The first missing id fails the call. A program without one of its inputs would mislead.
		if !slices.ContainsFunc(found, func(d domain.Document) bool { return d.ID == id }) {
			return nil, noDocument(id)
		}
	}
	return found, nil
}

// noDocument returns the same error for documents that do not exist and those the agent may not
// read.
func noDocument(id string) error {
	return mistake("No document %s that this agent may read.", strconv.Quote(truncate.Runes(id, shownName)))
}

// placeDocuments returns the files in which a program finds the documents. A document keeps its
// name if possible. If the name is already used or is not a valid file name, the file is in a
// folder named after the document's id.
func placeDocuments(originals []domain.Document, beside []domain.File) []domain.File {
	taken := map[string]bool{}
	for _, f := range beside {
		taken[f.Name] = true
	}
	placed := make([]domain.File, len(originals))
	for n, d := range originals {
		// A slash in the name would create a folder that the model does not expect.
		name := d.Name
		if !keepable(name) || strings.Contains(name, "/") || taken[name] {
			name = d.ID + "/" + d.Name
		}
		// The document's name is invalid, but its extension helps libraries to detect the type.
		if !keepable(name) {
			name = d.ID + path.Ext(d.Name)
		}
		// The extension is invalid, too. An id is always a valid file name.
		if !keepable(name) {
			name = d.ID
		}
		taken[name] = true
		placed[n] = domain.File{Name: name, Bytes: d.Bytes}
	}
	return placed
}

// addDocuments adds documents to the working folder. It notes the file names that differ from the
// documents' names.
func (f *folder) addDocuments(ctx context.Context, documents tool.Documents, originals []domain.Document, placed []domain.File) error {
	if len(originals) == 0 {
		return nil
	}

	contents, err := documents.Read(ctx, originals)
	switch {
	case errors.Is(err, tool.ErrGone):
		return mistake("A document was deleted while it was read. Try again without it.")
	case err != nil:
		return err
	}

	// The model knows a document by its id, so it must learn under which name the file is.
	for n, d := range originals {
		f.files = append(f.files, python.File{Name: placed[n].Name, Content: contents[n]})
		f.documentNames[placed[n].Name] = true
		if placed[n].Name != d.Name {
			f.notes = append(f.notes, fmt.Sprintf("%s is in the folder as %s.", d.ID, strconv.Quote(placed[n].Name)))
		}
	}
	return nil
}
