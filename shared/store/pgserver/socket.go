package pgserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// socketPort is the port number in the socket's file name if the server does not listen on TCP.
const socketPort = 5432

// longestSocket is the maximum length in bytes of a unix socket path that all systems support.
const longestSocket = 103

// recordName is the name of a file next to the data. The file contains the path of the socket's
// directory, if that is not the data directory.
const recordName = "socket"

// shortcutPrefix is the prefix of the names of the temporary directories that contain the link to a
// data directory. Only directories with this prefix are removed.
const shortcutPrefix = "parley-pg-"

// RunningDSN returns the connection URL of a database on the server that another process runs in
// dir without a TCP port. It returns an error if the server has no socket, because it is not running.
// A server that was killed may leave its socket. The caller needs permission to enter the directory.
func RunningDSN(dir, database string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("finding server's directory: %w", err)
	}

	socket := filepath.Join(dir, dataDir)
	switch link, err := os.ReadFile(filepath.Join(dir, recordName)); {
	case err == nil:
		socket = strings.TrimSpace(string(link))
	case !errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("reading short socket directory: %w", err)
	}
	switch _, err := os.Stat(filepath.Join(socket, socketName(socketPort))); {
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("no PostgreSQL server is running in %s; start parley up, or set DATABASE_URL", dir)
	case err != nil:
		return "", fmt.Errorf("finding the server's socket: %w", err)
	}
	return socketURL(socket, socketPort, database), nil
}

// makeShortcut returns a directory through which clients reach the socket in the directory data.
// Usually it returns data itself. If the path of data is too long for a socket address, it creates
// a link to data below the system's temporary directory, and writes the link's path to the file
// record. The server does not need the link, because it uses a path relative to its working
// directory.
func makeShortcut(data, record string, port int) (string, error) {
	if err := removeShortcut(record); err != nil {
		return "", err
	}

	if len(filepath.Join(data, socketName(port))) <= longestSocket {
		return data, nil
	}

	dir, err := os.MkdirTemp("", shortcutPrefix) // mode 0700, so that no other user can create a link there
	if err != nil {
		return "", fmt.Errorf("creating short socket directory: %w", err)
	}

	link := filepath.Join(dir, "s")
	if len(filepath.Join(link, socketName(port))) > longestSocket {
		return "", errors.Join(
			fmt.Errorf("%s and the temporary directory %s are too long for a socket path: set a shorter TMPDIR", data, os.TempDir()),
			os.Remove(dir))
	}

	// The link is recorded before it is used, so that a later start finds and removes it if this
	// process is killed.
	if err := os.WriteFile(record, []byte(link+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("recording short socket directory: %w", errors.Join(err, os.Remove(dir)))
	}

	if err := os.Symlink(data, link); err != nil {
		return "", fmt.Errorf("linking short socket directory: %w", errors.Join(err, removeShortcut(record)))
	}

	return link, nil
}

// removeShortcut removes the link whose path is in the file record, then the link's directory if it
// is empty, and then the file itself. It removes nothing else at that path.
func removeShortcut(record string) error {
	content, err := os.ReadFile(record)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading record of short socket directory: %w", err)
	}

	link := strings.TrimSpace(string(content))
	info, err := os.Lstat(link)
	if err == nil && info.Mode()&os.ModeSymlink != 0 {
		err = os.Remove(link)
	}

	if dir := filepath.Dir(link); strings.HasPrefix(filepath.Base(dir), shortcutPrefix) && (err == nil || errors.Is(err, os.ErrNotExist)) {
		err = os.Remove(dir)
	}

	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing short socket directory: %w", err)
	}

	if err := os.Remove(record); err != nil {
		return fmt.Errorf("removing record of short socket directory: %w", err)
	}

	return nil
}

// socketName returns the file name that PostgreSQL gives its unix socket.
func socketName(port int) string { return fmt.Sprintf(".s.PGSQL.%d", port) }
