package host

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"parley/workers/internal/sandbox"
)

// The user and the host name that programs find in every sandbox.
const (
	User     = 1000 // user id and group id
	Hostname = "sandbox"
)

// folders lists the folders of the host that every sandbox contains, regardless of its interpreter.
var folders = []string{
	"/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32",
	"/usr/share/fontconfig", "/usr/share/fonts", "/usr/share/matplotlib", "/usr/share/python3", "/usr/share/zoneinfo",
	"/usr/share/poppler", "/usr/share/tesseract-ocr", // data of programs that read documents: character encodings and language models
	"/etc/alternatives", "/etc/fonts",
}

// OuterLinks lists paths that are links into /usr on systems with a merged /usr, and folders on
// other systems. A sandbox contains those of the paths that exist on the host, in the same form: as
// links or as folders.
var OuterLinks = []string{"/bin", "/lib", "/lib32", "/lib64", "/libx32"}

// Files lists host files that a sandbox contains if they exist on the host.
var Files = []string{"/etc/ld.so.cache", "/etc/localtime", "/etc/matplotlibrc", "/etc/mime.types"}

// GeneratedFiles contains files that programs expect but whose contents on the host must stay
// hidden. Sandboxes get these contents instead.
var GeneratedFiles = []sandbox.Data{
	{Path: "/etc/passwd", Content: []byte("sandbox:x:" + userText + ":" + userText + "::" + sandbox.WorkDir + ":/bin/sh\n")},
	{Path: "/etc/group", Content: []byte("sandbox:x:" + userText + ":\n")},
	{Path: "/etc/hosts", Content: []byte("127.0.0.1 localhost\n::1 localhost\n")},
}

var userText = strconv.Itoa(User)

// Folders returns the host folders that a sandbox with the given interpreter contains, read-only
// and only if they exist. They contain programs, libraries, and data of Python packages and of
// programs that read documents.
func Folders(python string) []string {
	// An interpreter below /usr/local, as in Python's Docker images, has its libraries there.
	if strings.HasPrefix(python, "/usr/local/") {
		return append(slices.Clone(folders), "/usr/local/bin", "/usr/local/lib")
	}
	// Folders with packages that were installed for the system's Python without the system's
	// package manager.
	extra, _ := filepath.Glob("/usr/local/lib/python3*/dist-packages") // fails only for malformed patterns
	return append(slices.Clone(folders), extra...)
}
