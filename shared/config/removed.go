package config

import "strings"

// RemovedSetting is a setting of an earlier release that has no effect in this release.
type RemovedSetting struct {
	Name string // name of the environment variable
	Now  string // what applies instead, as a sentence without a period
}

// removed lists the removed settings. docs/upgrade.md has the same list.
var removed = []RemovedSetting{
	{"DOCUMENT_PAGES", "a document may have 2000 pages"},
	{"KEYS_PER_USER", "a user may have 100 valid API keys"},
	{"MEMBERSHIPS_PER_USER", "a user may belong to 100 organizations, or five times ORGANIZATIONS_PER_USER if that is more (0: no limit)"},
	{"ORG_BACKLOG_MAX", "an organization may queue a quarter of BACKLOG_MAX"},
	{"ORG_DISPATCH_WINDOW", "an organization may use all free slots"},
	{"SANDBOX_FILES", "the files of a call may have 64 MiB in total"},
	{"SANDBOX_OUTPUT", "the output of a call may have 1 MiB"},
	{"SANDBOX_PROCESSES", "a call may have 64 processes and threads"},
	{"SANDBOX_WARM", "a worker keeps as many sandboxes ready as SANDBOX_CONCURRENCY, at most 8"},
	{"STREAMS_PER_ORGANIZATION", "an organization may have twice STREAMS_PER_CREDENTIAL streams"},
	{"VOICE_IDLE_TIMEOUT", "a silent voice connection ends after 5 minutes"},
}

// Removed returns the removed settings that have a value in an environment, which has the format of
// os.Environ. Processes log a warning for each of them.
func Removed(environment []string) (set []RemovedSetting) {
	for _, setting := range removed {
		for _, variable := range environment {
			if value, is := strings.CutPrefix(variable, setting.Name+"="); is && value != "" {
				set = append(set, setting)
			}
		}
	}
	return set
}
