package toolserver

import (
	"context"
	"errors"
	"fmt"
	"io"

	"parley/shared/domain"
	"parley/shared/store/blobdb"
	"parley/workers/internal/tool"
)

// errOtherFile says that a file is not as the record of it has it.
var errOtherFile = errors.New("the file's content does not match its record")

// files are those of a call's session, as its backend may know them. Whose they are is told by the capability.
type files struct{ call *call }

// Session gives the newest file of each name that the session's other calls have left.
func (f files) Session(ctx context.Context) ([]domain.File, error) {
	list, known, err := f.call.server.deps.Files.SessionFiles(ctx, f.call.held(), f.call.request.CallID)
	switch {
	case err != nil:
		return nil, fmt.Errorf("listing files of the session: %w", err)
	case !known:
		return nil, tool.ErrStale
	}
	return list, nil
}

// Read gives files' contents, small ones together, and no more of them than their records say.
func (f files) Read(ctx context.Context, list []domain.File) ([][]byte, error) {
	contents := make([][]byte, 0, len(list))
	for len(contents) < len(list) {
		next := list[len(contents):]
		some, err := f.readSome(ctx, next[:together(next)])
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", next[0].ID, err)
		}
		contents = append(contents, some...)
	}
	for n := range list {
		if int64(len(contents[n])) != list[n].Bytes {
			return nil, fmt.Errorf("reading %s: %w", list[n].ID, errOtherFile)
		}
	}
	return contents, nil
}

// together is how many of the files, from the first on, are as small together as one may be to be read at once, and at least one.
func together(list []domain.File) int {
	room := int64(blobdb.SmallFile)
	for n, file := range list {
		if room -= file.Bytes; room < 0 {
			return max(n, 1)
		}
	}
	return len(list)
}

// readSome reads files that are small together, or one that is large.
func (f files) readSome(ctx context.Context, list []domain.File) ([][]byte, error) {
	org := f.call.capability.OrganizationID
	if list[0].Bytes <= blobdb.SmallFile {
		ids := make([]string, len(list))
		for n := range list {
			ids[n] = list[n].ID
		}
		return f.call.server.deps.Files.FileContents(ctx, org, ids)
	}
	_, content, err := f.call.server.deps.Files.OpenFile(ctx, org, list[0].ID)
	if err != nil {
		return nil, fmt.Errorf("opening file: %w", err)
	}
	defer func() { _ = content.Close() }()
	raw, err := io.ReadAll(io.LimitReader(content, list[0].Bytes+1))
	return [][]byte{raw}, err
}

// Keep keeps what the call has made, in place of what it had kept before.
func (f files) Keep(ctx context.Context, made []tool.NewFile, removed []string) ([]domain.File, error) {
	rows := make([]blobdb.NewFile, len(made))
	for n, file := range made {
		rows[n] = blobdb.NewFile{Name: file.Name, MIMEType: file.MIMEType, Content: file.Content}
	}
	limit := f.call.server.cfg.FilesPerOrganization
	list, kept, err := f.call.server.deps.Files.KeepFiles(ctx, f.call.held(), f.call.request.CallID, rows, removed, limit)
	switch {
	case errors.Is(err, blobdb.ErrFilesFull):
		return nil, tool.ErrFilesFull
	case err != nil:
		return nil, fmt.Errorf("keeping files: %w", err)
	case !kept:
		return nil, tool.ErrStale
	}
	return list, nil
}
