package toolserver

import (
	"context"
	"errors"
	"fmt"
	"io"

	"parley/shared/domain"
	"parley/shared/store"
	"parley/workers/internal/tool"
)

// errOtherFile says that a file is not as the record of it has it.
var errOtherFile = errors.New("the file's content is not what its record says")

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

// Read gives a file's content, and no more of it than its record says.
func (f files) Read(ctx context.Context, file domain.File) ([]byte, error) {
	_, content, err := f.call.server.deps.Files.OpenFile(ctx, f.call.capability.OrganizationID, file.ID)
	if err != nil {
		return nil, fmt.Errorf("opening file: %w", err)
	}
	defer func() { _ = content.Close() }()
	raw, err := io.ReadAll(io.LimitReader(content, file.Bytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading file: %w", err)
	case int64(len(raw)) != file.Bytes:
		return nil, errOtherFile
	}
	return raw, nil
}

// Keep keeps what the call has made, in place of what it had kept before.
func (f files) Keep(ctx context.Context, made []tool.NewFile, removed []string) ([]domain.File, error) {
	rows := make([]store.NewFile, len(made))
	for n, file := range made {
		rows[n] = store.NewFile{Name: file.Name, MIMEType: file.MIMEType, Content: file.Content}
	}
	most := f.call.server.cfg.FilesPerOrganization
	list, kept, err := f.call.server.deps.Files.KeepFiles(ctx, f.call.held(), f.call.request.CallID, rows, removed, most)
	switch {
	case errors.Is(err, store.ErrFilesFull):
		return nil, tool.ErrFilesFull
	case err != nil:
		return nil, fmt.Errorf("keeping files: %w", err)
	case !kept:
		return nil, tool.ErrStale
	}
	return list, nil
}
