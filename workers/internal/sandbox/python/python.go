package python

import (
	"time"

	"parley/workers/internal/sandbox"
)

// Program is what to run: code, and the files that are in its working folder when it starts.
type Program struct {
	Code  string
	Files []File
	Wall  time.Duration // less than Limits.Wall, for one that has less time; 0 is Limits.Wall
}

// File is a file in the working folder; its name is relative to it, with slashes.
type File struct {
	Name    string
	Content []byte
}

// Outcome is what came of a program. A program that failed is no error.
type Outcome struct {
	Stdout, Stderr string // valid UTF-8; together at most Limits.Output bytes
	Written        int64  // bytes that were printed in all
	Value          string // of the last expression, as repr gives it; "" when there is none, or None
	Traceback      string // of the exception that ended the program, with the user's lines alone; "" when none did
	ExitCode       int    // of the interpreter; -9 when signal 9 has ended it
	Limit          sandbox.Limit
	// Files are those that are new or other than the program found them, by name. Plots that were left open are among
	// them, as figure-1.png and so on.
	Files []File
	// Removed are names of Program.Files that are no longer there.
	Removed []string
	// LeftOut names files that are not given back: too many, too large, no plain files, or with names that are not UTF-8.
	// At most 100 are named.
	LeftOut []string
	Took    time.Duration
	CPU     time.Duration
	Memory  int64 // the most that was in use of it at a time, as far as was seen; 0 where it was not
}

// Failed reports whether the program did not come to its end as it should.
func (o Outcome) Failed() bool {
	return o.Traceback != "" || o.ExitCode != 0 || o.Limit != "" && o.Limit != sandbox.LimitOutput
}
