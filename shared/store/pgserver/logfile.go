package pgserver

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// logLimit is the maximum size in bytes of server.log, and of server.log.1.
const logLimit = 4 << 20

// tailLimit is the maximum number of bytes from the end of the log that an error contains.
const tailLimit = 2 << 10

// logFile is the file to which PostgreSQL's processes write their log. A pipe would fill up and
// block these processes while this process is stopped or gone.
type logFile struct {
	file  *os.File
	began int64 // offset in the file at which the log of this server starts
}

// openLog opens the log in dir and records at which offset the log of the next server starts.
func openLog(dir string) (*logFile, error) {
	// With O_APPEND, all writers continue at the new end of the file after it was truncated.
	file, err := os.OpenFile(filepath.Join(dir, "server.log"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening server log: %w", err)
	}

	log := &logFile{file: file}
	if err := log.rotate(); err != nil {
		return nil, errors.Join(err, file.Close())
	}

	if log.began, err = file.Seek(0, io.SeekEnd); err != nil {
		return nil, errors.Join(fmt.Errorf("reading the size of the server log: %w", err), file.Close())
	}

	return log, nil
}

// rotate moves the end of the log to server.log.1 and truncates the log if it is over its limit.
// Lines written between the two steps are lost.
func (l *logFile) rotate() error {
	info, err := l.file.Stat()
	if err != nil {
		return fmt.Errorf("reading the size of the server log: %w", err)
	}

	if info.Size() <= logLimit {
		return nil
	}

	before, err := os.OpenFile(l.file.Name()+".1", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("opening previous server log: %w", err)
	}

	_, err = io.Copy(before, io.NewSectionReader(l.file, info.Size()-logLimit, logLimit))
	if err = errors.Join(err, before.Close()); err != nil {
		return fmt.Errorf("saving previous server log: %w", err)
	}

	if err := l.file.Truncate(0); err != nil {
		return fmt.Errorf("emptying server log: %w", err)
	}

	l.began = 0
	return nil
}

// tail returns the end of the log since openLog was called, at most tailLimit bytes. It returns ""
// if the log cannot be read.
func (l *logFile) tail() string {
	info, err := l.file.Stat()
	if err != nil {
		return ""
	}
	from := max(l.began, info.Size()-tailLimit)
	content, err := io.ReadAll(io.NewSectionReader(l.file, from, tailLimit))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}
