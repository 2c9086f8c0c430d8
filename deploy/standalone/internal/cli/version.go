package cli

import (
	"context"
	"runtime"
	"runtime/debug"

	"parley/deploy/standalone/internal/console"
)

// Release is the version of this release. A test compares it with info.version in openapi.yaml.
const Release = "0.3.0"

// Version is the command that prints the release.
type Version struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Help returns the description for the manual page of the command.
func (*Version) Help() string {
	return `Prints the release, which is also the version of the API (info.version of /openapi.json), and the build: Go version, system, and commit if known. parley --version prints the same.`
}

// Examples returns the examples on the manual page of the command.
func (*Version) Examples() string {
	return `parley version
parley version --json`
}

// built describes how the program was built. Commit, Time and Modified are empty if the build has
// no information about version control.
type built struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
}

// Run prints the release and the build.
func (v *Version) Run(_ context.Context, con *console.Console) error {
	info, _ := debug.ReadBuildInfo()
	b := origin(info)
	if v.JSON {
		return con.JSON(b)
	}

	text := "parley " + b.Version + "\nbuilt with " + b.Go + " for " + b.Platform
	if b.Commit != "" {
		text += ", of commit " + b.Commit + " of " + b.Time
	}
	if b.Modified {
		text += ", with changes"
	}
	return con.Printf("%s\n", text)
}

// origin returns the release, the platform and, if info is not nil, the build information of the
// program.
func origin(info *debug.BuildInfo) built {
	b := built{Version: Release, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info == nil {
		return b
	}

	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Commit = setting.Value
		case "vcs.time":
			b.Time = setting.Value
		case "vcs.modified":
			b.Modified = setting.Value == "true"
		}
	}
	return b
}
