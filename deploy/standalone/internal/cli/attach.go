package cli

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"

	parley "parley/sdk/go"
)

// maxInlined is the maximum total size, in bytes, of the files that a request itself contains.
// Base64 makes files a third longer, and the body of a request is limited to 2 MiB.
const maxInlined = 1 << 20

// upload stores files for a session and returns attachments that refer to them. Only the command
// chat calls upload: if it is repeated, it sends a new message, so the two requests may differ.
func upload(ctx context.Context, service *connection, session string, paths []string) ([]parley.NewAttachment, error) {
	files, _, err := readFiles(paths)
	if err != nil {
		return nil, err
	}
	return store(ctx, service, session, files)
}

// inlined returns attachments that contain the files, so that a repeated command sends the same
// request with the same idempotency key. Files that are too large for a request are stored instead.
func inlined(ctx context.Context, service *connection, session string, paths []string) ([]parley.NewAttachment, error) {
	files, bytes, err := readFiles(paths)
	if err != nil {
		return nil, err
	}
	if bytes > maxInlined {
		return store(ctx, service, session, files)
	}
	var out []parley.NewAttachment
	for _, f := range files {
		data := base64.StdEncoding.EncodeToString(f.content)
		out = append(out, parley.NewAttachment{Data: &data, Name: &f.name})
	}
	return out, nil
}

// localFile is a file on this machine that a command attaches to a message.
type localFile struct {
	name    string
	content []byte
}

// readFiles reads the files at the paths. The result bytes is their total size. The error for a
// file that cannot be read has the status ExitArguments.
func readFiles(paths []string) (files []localFile, bytes int, err error) {
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, 0, exit(ExitArguments, "cannot read the file to attach: %v", err)
		}
		files = append(files, localFile{filepath.Base(path), content})
		bytes += len(content)
	}
	return files, bytes, nil
}

// store uploads files one after the other and returns attachments that refer to them. If one upload
// fails, the files before it stay stored.
func store(ctx context.Context, service *connection, session string, files []localFile) ([]parley.NewAttachment, error) {
	var out []parley.NewAttachment
	for _, f := range files {
		file, err := service.Files.Upload(ctx, f.name, "", f.content, session)
		if err != nil {
			return nil, fmt.Errorf("attaching %s: %w", f.name, err)
		}
		out = append(out, parley.NewAttachment{FileID: &file.ID})
	}
	return out, nil
}
