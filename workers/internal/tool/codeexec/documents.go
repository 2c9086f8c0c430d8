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

// lookUp returns the documents with the given ids. It fails if the agent may not read one of them.
func lookUp(ctx context.Context, documents tool.Documents, ids []string) ([]domain.Document, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := documents.Find(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		// A missing document fails the call, because a program that lacks an input could produce a
		// misleading result.
		if !slices.ContainsFunc(found, func(d domain.Document) bool { return d.ID == id }) {
			return nil, noDocument(id)
		}
	}
	return found, nil
}

// noDocument returns the error for a document that the agent cannot use. The error does not reveal
// whether the document exists.
func noDocument(id string) error {
	return mistake("There is no document %s that this agent may read.", strconv.Quote(truncate.Runes(id, shownName)))
}

// placeDocuments returns the files from which a program reads the documents, in the same order. A
// file has the document's name if possible. If the name is already used or is not a valid file
// name, the file is in a folder that is named after the document's id. The argument beside contains
// the other files of the working folder.
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
		// If the name is not a valid file name, only its extension is used, which helps libraries
		// to detect the type.
		if !keepable(name) {
			name = d.ID + path.Ext(d.Name)
		}
		// If the extension is invalid as well, the file has no extension. Its name is the
		// document's id, which is always valid.
		if !keepable(name) {
			name = d.ID
		}
		taken[name] = true
		placed[n] = domain.File{Name: name, Bytes: d.Bytes}
	}
	return placed
}

// addDocuments adds documents to the working folder. placed[i] is the file that contains the
// document originals[i]. A note for the model lists the files whose names differ from the
// documents' names. If a document was deleted in the meantime, addDocuments fails with an error for
// the model.
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

	// The model identifies a document by its id, so a note must state the name of the document's
	// file.
	for n, d := range originals {
		f.files = append(f.files, python.File{Name: placed[n].Name, Content: contents[n]})
		f.documentNames[placed[n].Name] = true
		if placed[n].Name != d.Name {
			f.notes = append(f.notes, fmt.Sprintf("The document %s is in the folder as %s.", d.ID, strconv.Quote(placed[n].Name)))
		}
	}
	return nil
}
