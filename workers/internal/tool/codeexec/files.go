package codeexec

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"parley/shared/domain"
	"parley/shared/truncate"
	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/python"
	"parley/workers/internal/tool"
)

const (
	maxNamed    = 20  // number of file names that an error lists
	maxFileName = 255 // bytes
	shownName   = 100 // characters of an unknown name that are shown
)

// folder contains the initial files of a program's working folder, and notes about them for the
// model.
type folder struct {
	files         []python.File
	documentNames map[string]bool // names of the files that contain documents; all other files belong to the session
	notes         []string
}

// fill returns the initial files of a call's working folder. The folder contains the files and
// documents that the call names, and the run's attachments. If the agent keeps files, the folder
// contains the other files of the session, too. As many files as fit are included.
//
// The argument named contains names and ids. If a named file does not exist or does not fit, fill
// returns an error for the model. Other files that do not fit are omitted with a note.
func (b *Backend) fill(ctx context.Context, req tool.Request, named []string, keeps bool) (folder, error) {
	f := folder{documentNames: map[string]bool{}}
	// Files are looked up by name only in this list, so no name reaches a file of another session.
	all, err := req.Files.Session(ctx)
	if err != nil {
		return f, err
	}
	attached := attachedTo(req.RunID, all)
	if len(named) == 0 && !keeps && len(attached) == 0 {
		return f, nil
	}

	chosen, ids, err := choose(all, named)
	if err != nil {
		return f, err
	}

	originals, err := lookUp(ctx, req.Documents, ids)
	if err != nil {
		return f, err
	}

	// If the agent keeps files, the folder contains the whole session. The call fails if a named
	// file does not exist.
	if keeps {
		chosen = all
	}
	placed := placeDocuments(originals, chosen)
	if keeps {
		var out []string
		if chosen, out = b.newest(all, placed); len(out) > 0 {
			f.notes = append(f.notes, "These files of the session are not in the folder, because they would make it too large: "+nameList(out)+".")
		}
	} else {
		chosen = b.withAttached(chosen, attached, placed)
	}

	// The sizes are checked before any content is read.
	if err := b.fits(slices.Concat(placed, chosen)); err != nil {
		return f, err
	}

	contents, err := req.Files.Read(ctx, chosen)
	if err != nil {
		return f, err
	}

	for n, file := range chosen {
		f.files = append(f.files, python.File{Name: file.Name, Content: contents[n]})
	}
	return f, f.addDocuments(ctx, req.Documents, originals, placed)
}

// attachedTo returns the files that were attached to the request of the given run.
func attachedTo(runID string, all []domain.File) []domain.File {
	var out []domain.File
	for _, f := range all {
		if f.RunID == runID && f.CallID == domain.AttachmentCall {
			out = append(out, f)
		}
	}
	return out
}

// withAttached adds the run's attachments to the chosen files, as far as they fit into a working
// folder. The argument beside contains the documents in the folder.
func (b *Backend) withAttached(chosen, attached, beside []domain.File) []domain.File {
	r := b.empty()
	for _, f := range slices.Concat(beside, chosen) {
		r.takes(f) // the result is ignored, because the function fits rejects the call if the files do not fit
	}
	for _, f := range attached {
		known := slices.ContainsFunc(chosen, func(c domain.File) bool { return c.ID == f.ID })
		if !known && !r.clashes(f.Name) && !r.files[f.Name] && r.takes(f) {
			chosen = append(chosen, f)
		}
	}
	return chosen
}

// choose finds files by id or name, without duplicates. ids contains the names that match no file
// but begin like a document's id.
func choose(all []domain.File, named []string) (chosen []domain.File, ids []string, err error) {
	for _, name := range named {
		// A file of the session has priority over a document, because a file's name may begin like
		// a document's id.
		at := find(all, name)
		switch {
		case at < 0 && strings.HasPrefix(name, documentPrefix):
			if !slices.Contains(ids, name) {
				ids = append(ids, name)
			}
		case at < 0:
			return nil, nil, mistake("This session has no file %s. %s", strconv.Quote(truncate.Runes(name, shownName)), describeFiles(all))
		case !slices.ContainsFunc(chosen, func(f domain.File) bool { return f.ID == all[at].ID }):
			chosen = append(chosen, all[at])
		}
	}
	return chosen, ids, nil
}

// find returns the index of the file with the given name, or -1. The name may also be the path at
// which a program opens the file.
func find(all []domain.File, name string) int {
	// An exact match has priority over a cleaned path.
	if at := slices.IndexFunc(all, func(f domain.File) bool { return f.ID == name || f.Name == name }); at >= 0 {
		return at
	}
	// Models often copy an absolute path from an earlier program.
	clean := path.Clean(strings.TrimPrefix(name, sandbox.WorkDir+"/"))
	return slices.IndexFunc(all, func(f domain.File) bool { return f.Name == clean })
}

// describeFiles lists the session's files for an error message.
func describeFiles(all []domain.File) string {
	if len(all) == 0 {
		return "The session has no files."
	}
	names := make([]string, len(all))
	for n, f := range all {
		names[n] = f.Name
	}
	return "The session's files are " + nameList(names) + "."
}

// nameList formats the first names of a list for an error message.
func nameList(names []string) string {
	var quoted []string
	for _, name := range names[:min(len(names), maxNamed)] {
		quoted = append(quoted, strconv.Quote(truncate.Runes(name, shownName)))
	}
	text := strings.Join(quoted, ", ")
	if more := len(names) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// fits returns an error if the given files do not fit into a working folder together.
func (b *Backend) fits(files []domain.File) error {
	// The files are added to an empty folder one after the other, in the same way as in the
	// interpreter.
	r := b.empty()
	for _, f := range files {
		switch {
		case r.clashes(f.Name):
			return mistake("The folder cannot contain all of these files: %s is also the folder of another file.", strconv.Quote(f.Name))
		case !r.takes(f):
			return mistake("The files exceed the folder's limit of %s and %d files.", size(r.maxBytes), r.maximum)
		}
	}
	return nil
}

// newest returns the newest session files, sorted by name, that fit into a working folder together
// with the files in the list beside. The result out contains the names of the session files that do
// not fit.
func (b *Backend) newest(all, beside []domain.File) (files []domain.File, out []string) {
	byAge := slices.Clone(all)
	// The newest files come first, because a follow-up question most likely refers to them.
	slices.SortStableFunc(byAge, func(x, y domain.File) int { return y.CreatedAt.Compare(x.CreatedAt.Time) })

	// Documents that the call names take precedence over session files.
	r := b.empty()
	for _, f := range beside {
		r.takes(f) // the result is ignored, because fits has already checked the named files
	}

	for _, f := range byAge {
		// If a file does not fit, a smaller and older file may still fit.
		if r.clashes(f.Name) || !r.takes(f) {
			out = append(out, f.Name)
			continue
		}
		files = append(files, f)
	}
	slices.SortFunc(files, func(x, y domain.File) int { return strings.Compare(x.Name, y.Name) })
	return files, out
}

// room is the free space of a working folder. A limit of 0 means no limit. room counts bytes and
// files in the same way as the interpreter, so the interpreter accepts all files that fit into the
// room.
type room struct {
	// Total bytes of the added files, and the limit on this total.
	bytes, maxBytes int64
	// Maximum number of files.
	maximum int
	// Names of the added files, and of all folders that contain them.
	files, folders map[string]bool
}

// empty returns the space of an empty working folder.
func (b *Backend) empty() *room {
	return &room{maxBytes: b.cfg.Limits.Files, maximum: b.cfg.Limits.FileCount, files: map[string]bool{}, folders: map[string]bool{}}
}

// takes adds a file if there is enough space, and reports whether there was.
func (r *room) takes(f domain.File) bool {
	if r.maxBytes > 0 && r.bytes+f.Bytes > r.maxBytes || r.maximum > 0 && len(r.files) >= r.maximum {
		return false
	}
	r.bytes += f.Bytes
	r.files[f.Name] = true
	// Each parent of the name is a folder, so no file may have the same name as a parent.
	for dir := path.Dir(f.Name); dir != "." && dir != "/"; dir = path.Dir(dir) {
		r.folders[dir] = true
	}
	return true
}

// clashes reports whether a file name is already used as a folder, or is below a name that is used
// for a file.
func (r *room) clashes(name string) bool {
	for dir := path.Dir(name); dir != "." && dir != "/"; dir = path.Dir(dir) {
		// The parent folder has the name of an existing file.
		if r.files[dir] {
			return true
		}
	}
	return r.folders[name]
}

// keepable reports whether a file may be stored under a name. A valid name is a relative path
// inside the folder, without control characters and bidirectional characters.
func keepable(name string) bool {
	return fs.ValidPath(name) && name != "." && len(name) <= maxFileName && !strings.ContainsFunc(name, func(r rune) bool {
		return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
	})
}
