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

// errOtherFile means that a file's content does not have the length in its record.
var errOtherFile = errors.New("the file's content does not match its record")

// files gives a backend access to the files of the call's session, which the capability determines.
type files struct{ call *call }

// Session returns the session's files from all other calls. Of several files with the same name it
// returns the newest.
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

// Read returns the contents of files. It reads small files in batches.
func (f files) Read(ctx context.Context, list []domain.File) ([][]byte, error) {
	contents := make([][]byte, 0, len(list))
	for len(contents) < len(list) {
		// Each batch continues after the files that were read so far.
		next := list[len(contents):]
		some, err := f.readSome(ctx, next[:batchSize(next)])
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", next[0].ID, err)
		}
		contents = append(contents, some...)
	}

	// Backends trust the recorded sizes for their limits, so a difference must not pass.
	for n := range list {
		if int64(len(contents[n])) != list[n].Bytes {
			return nil, fmt.Errorf("reading %s: %w", list[n].ID, errOtherFile)
		}
	}
	return contents, nil
}

// batchSize returns the number of files, counted from the first, that fit into one batch. It is at
// least one.
func batchSize(list []domain.File) int {
	room := int64(blobdb.SmallFile)
	for n, file := range list {
		// A file that alone exceeds the batch is still returned, so that Read makes progress.
		if room -= file.Bytes; room < 0 {
			return max(n, 1)
		}
	}
	return len(list)
}

// readSome reads a batch of small files, or one large file.
func (f files) readSome(ctx context.Context, list []domain.File) ([][]byte, error) {
	org := f.call.capability.OrganizationID
	// The contents of small files are in the database, so a single query returns several of them.
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

	// Read at most one byte more than recorded, which suffices to detect a longer content.
	raw, err := io.ReadAll(io.LimitReader(content, list[0].Bytes+1))
	return [][]byte{raw}, err
}

// Keep stores the files that the call has made. They replace the files that it stored before.
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
