package cgroup

import (
	"fmt"
	"path/filepath"
	"strings"
)

// mount is a mount point of a cgroup hierarchy. version is 1 or 2.
type mount struct {
	root    string // the cgroup that is mounted at point
	point   string
	version int
	options string // mount options, which include the controllers in version 1
}

// mountsIn parses the cgroup mounts in /proc/self/mountinfo.
func mountsIn(mountinfo string) (mounts []mount) {
	for line := range strings.Lines(mountinfo) {
		// In a line of mountinfo, a variable number of optional fields precedes " - ", and the file
		// system type follows it.
		left, right, found := strings.Cut(line, " - ")
		fields, kind := strings.Fields(left), strings.Fields(right)
		if !found || len(fields) < 5 || len(kind) < 3 {
			continue
		}
		m := mount{root: unescape(fields[3]), point: unescape(fields[4]), options: kind[2]}
		switch kind[0] {
		case "cgroup2":
			m.version = 2
		case "cgroup":
			m.version = 1
		default:
			continue
		}
		mounts = append(mounts, m)
	}
	return mounts
}

// unescape decodes the kernel's escapes for spaces and similar characters in paths.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace

// home returns the folder of this process's cgroup. controller selects the hierarchy in version 1;
// "" selects the only hierarchy of version 2. The argument own is the text of /proc/self/cgroup.
// found is false if there is no such hierarchy. home fails if the hierarchy exists, but no mount of
// it contains this process's cgroup.
func home(mounts []mount, own, controller string) (dir string, found bool, err error) {
	// A hierarchy may be mounted several times, and a mount may show only a part of it. The mount
	// that contains this process's cgroup is used.
	path, found := pathIn(own, controller)
	if !found {
		return "", false, nil
	}
	found = false
	for _, m := range mounts {
		if (m.version == 2) != (controller == "") || controller != "" && !hasWord(m.options, controller) {
			continue
		}
		found = true
		rest, inside := below(m.root, path)
		if inside {
			return filepath.Join(m.point, rest), true, nil
		}
	}
	if found {
		return "", true, fmt.Errorf("the cgroup %s of this process is outside the mounted hierarchy", path)
	}
	return "", false, nil
}

// pathIn returns the path of this process's cgroup. It searches own, the text of /proc/self/cgroup.
// controller has the same meaning as for the function home.
func pathIn(own, controller string) (path string, found bool) {
	for line := range strings.Lines(own) {
		field := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(field) == 3 && (controller == "" && field[1] == "" && field[0] == "0" || controller != "" && hasWord(field[1], controller)) {
			return field[2], true
		}
	}
	return "", false
}

// hasWord reports whether a comma-separated list contains a word.
func hasWord(list, word string) bool { return strings.Contains(","+list+",", ","+word+",") }

// below returns the part of a path below root. inside is false if the path is not below root, or
// begins with "..".
func below(root, path string) (rest string, inside bool) {
	// In a cgroup namespace, a path that begins with "/.." is outside of the namespace's root.
	if strings.HasPrefix(path, "/..") {
		return "", false
	}
	if root == "/" || path == root {
		return strings.TrimPrefix(path, root), true
	}
	return strings.CutPrefix(path, root+"/")
}
