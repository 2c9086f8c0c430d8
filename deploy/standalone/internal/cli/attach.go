package cli

import (
	"context"
	"os"
	"path/filepath"

	parley "parley/sdk/go"
)

// upload stores files for a session and returns them as attachments.
func upload(ctx context.Context, service *connection, session string, paths []string) ([]parley.NewAttachment, error) {
	var out []parley.NewAttachment
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, exit(ExitArguments, "cannot read the file to attach: %v", err)
		}
		file, err := service.Files.Upload(ctx, filepath.Base(path), "", content, session)
		if err != nil {
			return nil, err //nolint:wrapcheck // explained by the command
		}
		out = append(out, parley.NewAttachment{FileID: &file.ID})
	}
	return out, nil
}
