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

// errOtherFile means that the length of a file's content differs from the length in its record.
var errOtherFile = errors.New("the file's content does not match its record")

// files gives a backend access to the files of one session. The capability determines the session.
type files struct{ call *call }

// Session returns the session's files from all calls except this one. If several files have the
// same name, Session returns only the newest.
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

// Read returns the contents of the given files. It reads small files in batches.
func (f files) Read(ctx context.Context, list []domain.File) ([][]byte, error) {
	contents := make([][]byte, 0, len(list))
	for len(contents) < len(list) {
		// Each batch begins with the first file that has not been read yet.
		next := list[len(contents):]
		some, err := f.readSome(ctx, next[:batchSize(next)])
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", next[0].ID, err)
		}
		contents = append(contents, some...)
	}

	// Backends use the recorded sizes for their limits, so content of another size is rejected.
	for n := range list {
		if int64(len(contents[n])) != list[n].Bytes {
			return nil, fmt.Errorf("reading %s: %w", list[n].ID, errOtherFile)
		}
	}
	return contents, nil
}

// batchSize returns how many of the first files fit into one batch, but at least one.
func batchSize(list []domain.File) int {
	room := int64(blobdb.SmallFile)
	for n, file := range list {
		// The first file is included even if it is larger than a batch, so that Read makes
		// progress.
		if room -= file.Bytes; room < 0 {
			return max(n, 1)
		}
	}
	return len(list)
}

// readSome reads a batch of small files, or a single large file.
func (f files) readSome(ctx context.Context, list []domain.File) ([][]byte, error) {
	org := f.call.capability.OrganizationID
	// The contents of small files are stored in the database, so one query returns several of them.
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

	// One byte more than recorded is enough to detect that the content is longer.
	raw, err := io.ReadAll(io.LimitReader(content, list[0].Bytes+1))
	return [][]byte{raw}, err
}

// Keep stores the files that the call has created. They replace the files that an earlier attempt
// at the call has stored.
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
