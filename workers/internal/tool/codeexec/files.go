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
	maxNamed    = 20  // file names that an error lists
	maxFileName = 255 // bytes
	shownName   = 100 // characters of an unknown name that are shown
)

// folder is the initial content of a program's working folder.
type folder struct {
	files         []python.File
	documentNames map[string]bool // names of files that contain documents; all others are session files
	notes         []string
}

// fill returns the initial files of a call's working folder: the files and documents that the call
// names and, if the agent keeps files, all files of the session.
func (b *Backend) fill(ctx context.Context, req tool.Request, named []string, keeps bool) (folder, error) {
	f := folder{documentNames: map[string]bool{}}
	// Named files are searched only in this list, so no name reaches a file of another session.
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

	// An agent that keeps files sees the whole session; the named files are then only checked.
	if keeps {
		chosen = all
	}
	placed := placeDocuments(originals, chosen)
	if keeps {
		var out []string
		if chosen, out = b.newest(all, placed); len(out) > 0 {
			f.notes = append(f.notes, "Files of the session omitted from the folder, because it would be too large: "+nameList(out)+".")
		}
	} else {
		chosen = b.withAttached(chosen, attached, placed)
	}

	// Check the sizes before reading any content.
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

// attachedTo returns the files that the request of a run attached.
func attachedTo(runID string, all []domain.File) []domain.File {
	var out []domain.File
	for _, f := range all {
		if f.RunID == runID && f.CallID == domain.AttachmentCall {
			out = append(out, f)
		}
	}
	return out
}

// withAttached adds the attachments of the run to the chosen files, as far as they fit into a working
// folder.
func (b *Backend) withAttached(chosen, attached, beside []domain.File) []domain.File {
	r := b.empty()
	for _, f := range slices.Concat(beside, chosen) {
		r.takes(f) // if a file does not fit, fits rejects the call
	}
	for _, f := range attached {
		known := slices.ContainsFunc(chosen, func(c domain.File) bool { return c.ID == f.ID })
		if !known && !r.clashes(f.Name) && !r.files[f.Name] && r.takes(f) {
			chosen = append(chosen, f)
		}
	}
	return chosen
}

// choose finds files by id or name, without duplicates. It also returns the names that match no
// file but begin like the id of a document.
func choose(all []domain.File, named []string) (chosen []domain.File, ids []string, err error) {
	for _, name := range named {
		// A session file wins over a document, because its name may begin like a document's id.
		at := find(all, name)
		switch {
		case at < 0 && strings.HasPrefix(name, documentPrefix):
			if !slices.Contains(ids, name) {
				ids = append(ids, name)
			}
		case at < 0:
			return nil, nil, mistake("No file %s in this session. %s", strconv.Quote(truncate.Runes(name, shownName)), describeFiles(all))
		case !slices.ContainsFunc(chosen, func(f domain.File) bool { return f.ID == all[at].ID }):
			chosen = append(chosen, all[at])
		}
	}
	return chosen, ids, nil
}

// find returns the index of the file with a name, or -1. The name may also be the path at which the
// program opens the file.
func find(all []domain.File, name string) int {
	// An exact match has priority over a cleaned path.
	if at := slices.IndexFunc(all, func(f domain.File) bool { return f.ID == name || f.Name == name }); at >= 0 {
		return at
	}
	// Models often copy the absolute path from an earlier program.
	clean := path.Clean(strings.TrimPrefix(name, sandbox.WorkDir+"/"))
	return slices.IndexFunc(all, func(f domain.File) bool { return f.Name == clean })
}

// describeFiles lists a session's files for an error message.
func describeFiles(all []domain.File) string {
	if len(all) == 0 {
		return "It has no files."
	}
	names := make([]string, len(all))
	for n, f := range all {
		names[n] = f.Name
	}
	return "Its files are " + nameList(names) + "."
}

// nameList formats the first names of a list.
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

// fits returns an error if the files together do not fit into a working folder.
func (b *Backend) fits(files []domain.File) error {
	// Add the files to an empty folder in turn, as the interpreter will do.
	r := b.empty()
	for _, f := range files {
		switch {
		case r.clashes(f.Name):
			return mistake("The folder cannot contain all of these files: the name of %s is also a folder of another file.", strconv.Quote(f.Name))
		case !r.takes(f):
			return mistake("The files exceed the folder's limit of %s and %d files.", size(r.maxBytes), r.maximum)
		}
	}
	return nil
}

// newest returns the newest session files that fit into a working folder together with the files in
// beside, sorted by name. out contains the names of the session files that do not fit.
func (b *Backend) newest(all, beside []domain.File) (files []domain.File, out []string) {
	byAge := slices.Clone(all)
	// The newest files come first: a follow-up question most likely concerns them.
	slices.SortStableFunc(byAge, func(x, y domain.File) int { return y.CreatedAt.Compare(x.CreatedAt.Time) })

	// The documents that the call names always have priority over kept files.
	r := b.empty()
	for _, f := range beside {
		r.takes(f) // if a file does not fit, fits has rejected the call
	}

	for _, f := range byAge {
		// A smaller, older file may still fit, so continue after a file that does not.
		if r.clashes(f.Name) || !r.takes(f) {
			out = append(out, f.Name)
			continue
		}
		files = append(files, f)
	}
	slices.SortFunc(files, func(x, y domain.File) int { return strings.Compare(x.Name, y.Name) })
	return files, out
}

// room is the free space of a working folder. A limit of 0 means no limit.
type room struct {
	// size of the added files and its limit
	bytes, maxBytes int64
	// limit on the number of files
	maximum int
	// names of the added files, and of all folders in which they are
	files, folders map[string]bool
}

// empty returns the free space of an empty working folder.
func (b *Backend) empty() *room {
	return &room{maxBytes: b.cfg.Limits.Files, maximum: b.cfg.Limits.FileCount, files: map[string]bool{}, folders: map[string]bool{}}
}

// takes adds a file and returns true if there is enough space for it.
func (r *room) takes(f domain.File) bool {
	if r.maxBytes > 0 && r.bytes+f.Bytes > r.maxBytes || r.maximum > 0 && len(r.files) >= r.maximum {
		return false
	}
	r.bytes += f.Bytes
	r.files[f.Name] = true
	// Each parent is a folder, which no file may replace.
	for dir := path.Dir(f.Name); dir != "." && dir != "/"; dir = path.Dir(dir) {
		r.folders[dir] = true
	}
	return true
}

// clashes reports whether a file name is already used as a folder, or would be inside of another
// file.
func (r *room) clashes(name string) bool {
	for dir := path.Dir(name); dir != "." && dir != "/"; dir = path.Dir(dir) {
		// A parent of this name is a file.
		if r.files[dir] {
			return true
		}
	}
	return r.folders[name]
}

// keepable reports whether a file may be stored under a name. The name must be a relative path
// inside the folder without control and bidirectional characters.
func keepable(name string) bool {
	return fs.ValidPath(name) && name != "." && len(name) <= maxFileName && !strings.ContainsFunc(name, func(r rune) bool {
		return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
	})
}
