package pack

import (
	"archive/zip"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"parley/workers/internal/document"
)

// Limits of an archive.
const (
	maxEntries = 10_000
	maxEntry   = 128 << 20 // bytes of a decompressed entry
	maxAll     = 512 << 20 // declared bytes of all entries when decompressed
	maxRead    = 384 << 20 // maximum number of bytes of all entries that are read, when decompressed
	ratioFrom  = 8 << 20   // an entry larger than this is a bomb if its size is more than maxRatio times its compressed size
	maxRatio   = 400
)

// Archive is an opened archive. It refers to the content that was passed to Open, which must not be
// changed. It is not safe for concurrent use, because Read counts the bytes.
type Archive struct {
	// parts contains the entries by their names in lower case.
	parts map[string]*zip.File
	// names contains the names of the parts as they are written in the archive.
	names []string
	room  int64 // number of bytes that may still be decompressed
}

// ErrNoPart means that an archive does not contain the requested part.
var ErrNoPart = errors.New("the archive does not have this part")

// Open checks an archive without decompressing it. Its errors are of type *document.Failure: the
// code is damaged or too_large. Entries that are folders or have insecure names are ignored.
func Open(content []byte) (*Archive, error) {
	if bytes.Count(content, []byte("PK\x01\x02")) > 4*maxEntries { // reading the directory needs memory, so count the entries first
		return nil, tooMany()
	}

	// Ignore the error about insecure names, because partName ignores entries with such names.
	r, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return nil, damaged("The file is damaged: its format requires a complete ZIP archive.")
	}
	if len(r.File) > maxEntries {
		return nil, tooMany()
	}

	a := &Archive{parts: make(map[string]*zip.File, len(r.File)), room: maxRead}
	if err := checkEntries(r.File); err != nil {
		return nil, err
	}

	for _, f := range r.File {
		name, ok := partName(f.Name)
		if !ok || strings.HasSuffix(f.Name, "/") {
			continue
		}

		// Office programs compare names without regard to case. If two names are equal, the first
		// entry is used.
		if key := strings.ToLower(name); a.parts[key] == nil {
			a.parts[key] = f
			a.names = append(a.names, name)
		}
	}
	return a, nil
}

// partName returns the normalized name of an entry. It returns false if the entry is ignored, for
// example because its name leads out of the archive.
func partName(name string) (string, bool) {
	name = strings.TrimPrefix(strings.ReplaceAll(name, `\`, "/"), "/")
	if name == "" || strings.ContainsAny(name, "\x00:") || path.Clean(name) != strings.TrimSuffix(name, "/") || strings.HasPrefix(name, "..") {
		return "", false
	}
	return name, true
}

// checkEntries rejects decompression bombs and archives with overlapping entries. No program that
// writes documents creates such archives. checkEntries reads the directory and the positions of the
// entries, but decompresses nothing.
func checkEntries(files []*zip.File) error {
	type extent struct{ from, to int64 }
	extents := make([]extent, 0, len(files))
	var all uint64
	for _, f := range files {
		// The sender declares the sizes, so limit each of them to keep the sum from overflowing.
		all += min(f.UncompressedSize64, 1<<40)
		if all > maxAll {
			return bomb("its parts expand to more than %d MiB", maxAll>>20)
		}
		if f.UncompressedSize64 > ratioFrom && f.UncompressedSize64/maxRatio > f.CompressedSize64 {
			return bomb("a part of it expands to more than %d times its size", maxRatio)
		}
		from, err := f.DataOffset()
		if err != nil {
			return damaged("The file is damaged: its ZIP archive is incomplete.")
		}
		// An entry begins with a header of 30 bytes and the name.
		extents = append(extents, extent{from - 30 - int64(len(f.Name)), from + int64(min(f.CompressedSize64, 1<<40))})
	}

	// Overlapping entries share compressed bytes, so a small archive could have a huge decompressed
	// size.
	slices.SortFunc(extents, func(a, b extent) int { return cmp.Compare(a.from, b.from) })
	for i := 1; i < len(extents); i++ {
		if extents[i].from < extents[i-1].to {
			return damaged("The file was rejected: parts of its ZIP archive overlap.")
		}
	}
	return nil
}

// Names returns the names of all parts in the order of the archive. The caller must not change the
// list.
func (a *Archive) Names() []string { return a.names }

// Has reports whether a part exists. Names are compared without regard to case.
func (a *Archive) Has(name string) bool { return a.parts[key(name)] != nil }

// Read decompresses a part. If the archive does not contain the part, the error wraps ErrNoPart.
// Any other error is of type *document.Failure. Its code is password_protected, damaged or
// too_large.
//
// Each call decompresses the part again and counts towards maxRead, so a caller should keep the
// content.
func (a *Archive) Read(name string) ([]byte, error) {
	f := a.parts[key(name)]
	if f == nil {
		return nil, fmt.Errorf("reading part %q: %w", name, ErrNoPart)
	}
	if f.Flags&1 != 0 {
		return nil, &document.Failure{Code: document.Encrypted, Message: "The document is protected by a password."}
	}

	// The declared size may be wrong, so also limit the number of decompressed bytes.
	limit := min(int64(maxEntry), a.room)
	if f.UncompressedSize64 > uint64(limit) {
		return nil, bomb("its parts expand to more than the limit")
	}

	r, err := f.Open()
	if err != nil {
		return nil, damaged("The file is damaged: a part of it has an unsupported compression method.")
	}
	defer r.Close()
	// One more byte than the limit is read, to find out whether the part is larger.
	content, err := io.ReadAll(io.LimitReader(r, limit+1))
	if int64(len(content)) > limit {
		return nil, bomb("its parts expand to more than the limit")
	}
	if err != nil {
		return nil, damaged("The file is damaged: a part of it cannot be decompressed.")
	}
	a.room -= int64(len(content))
	return content, nil
}

// key returns the key of a part in the map of parts: its cleaned path in lower case.
func key(name string) string {
	return strings.ToLower(strings.TrimPrefix(path.Clean("/"+strings.ReplaceAll(name, `\`, "/")), "/"))
}

// tooMany returns the failure for an archive with too many parts.
func tooMany() error {
	return &document.Failure{
		Code: document.TooLarge, Message: fmt.Sprintf("The file is an archive with more than the maximum of %d parts.", maxEntries),
	}
}

// bomb returns the failure for an archive that is too large when decompressed. The argument how
// describes the excess.
func bomb(how string, args ...any) error {
	return &document.Failure{Code: document.TooLarge, Message: "The file is too large when decompressed: " + fmt.Sprintf(how, args...) + "."}
}

// damaged returns the failure for an archive that cannot be read. message is for the person who
// uploaded the document.
func damaged(message string) error {
	return &document.Failure{Code: document.Damaged, Message: message}
}
