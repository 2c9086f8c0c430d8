package cli

import (
	"context"
	"encoding/base64"
	"os"
	"path/filepath"

	parley "parley/sdk/go"
)

// maxInline is the maximum size of the files that a request contains. Beside a message, they fit into
// its body of 2 MiB.
const maxInline = 1 << 20

// attachments returns files as attachments. Small ones become part of the request, so that it is the
// same request if the command is repeated with its idempotency key. Larger ones are uploaded.
func attachments(ctx context.Context, service *connection, session string, paths []string) ([]parley.NewAttachment, error) {
	var out []parley.NewAttachment
	size := 0
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, exit(ExitArguments, "cannot read the file to attach: %v", err)
		}
		if size += len(content); size > maxInline {
			return upload(ctx, service, session, paths)
		}
		out = append(out, parley.NewAttachment{Data: new(base64.StdEncoding.EncodeToString(content)), Name: new(filepath.Base(path))})
	}
	return out, nil
}

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
