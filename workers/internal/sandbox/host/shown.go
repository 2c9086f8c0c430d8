package host

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"parley/workers/internal/sandbox"
)

// The identity of every sandbox.
const (
	User     = 1000 // user id and group id
	Hostname = "sandbox"
)

// folders are the folders that every sandbox shows, whatever its interpreter.
var folders = []string{
	"/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32",
	"/usr/share/fontconfig", "/usr/share/fonts", "/usr/share/matplotlib", "/usr/share/python3", "/usr/share/zoneinfo",
	"/usr/share/poppler", "/usr/share/tesseract-ocr", // for readers of documents: encodings and trained languages
	"/etc/alternatives", "/etc/fonts",
}

// OuterLinks are paths that are links into /usr on systems with a merged /usr, and folders on
// others. Sandboxes show those that exist, as they are.
var OuterLinks = []string{"/bin", "/lib", "/lib32", "/lib64", "/libx32"}

// Files are the host's files that a sandbox shows if they exist.
var Files = []string{"/etc/ld.so.cache", "/etc/localtime", "/etc/matplotlibrc", "/etc/mime.types"}

// GeneratedFiles are files that programs expect and whose host version must not be visible.
var GeneratedFiles = []sandbox.Data{
	{Path: "/etc/passwd", Content: []byte("sandbox:x:" + userText + ":" + userText + "::" + sandbox.WorkDir + ":/bin/sh\n")},
	{Path: "/etc/group", Content: []byte("sandbox:x:" + userText + ":\n")},
	{Path: "/etc/hosts", Content: []byte("127.0.0.1 localhost\n::1 localhost\n")},
}

var userText = strconv.Itoa(User)

// Folders returns the host's folders that a sandbox with this interpreter shows read-only if they
// exist: programs, libraries, and data of Python packages and document readers.
func Folders(python string) []string {
	if strings.HasPrefix(python, "/usr/local/") {
		return append(slices.Clone(folders), "/usr/local/bin", "/usr/local/lib")
	}
	// Packages installed for the system's Python without its package manager.
	extra, _ := filepath.Glob("/usr/local/lib/python3*/dist-packages") // fails only for malformed patterns
	return append(slices.Clone(folders), extra...)
}
