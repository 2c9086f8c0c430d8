package python

import (
	"time"

	"parley/workers/internal/sandbox"
)

// Program is a Python program: its code, and the initial files of its working folder. Code is
// Python source text. If the last statement is an expression, the value of this expression is a
// part of the outcome.
type Program struct {
	Code  string
	Files []File
	Wall  time.Duration // limit on the elapsed time, if shorter than Limits.Wall; 0 means Limits.Wall
}

// File is a file in the working folder. Its name is a path relative to that folder, with slashes.
type File struct {
	Name    string
	Content []byte
}

// Outcome is the result of a program. A program that fails has an outcome, too; errors are for
// failures of the sandbox. All texts and names come from the program and are untrusted.
type Outcome struct {
	Stdout, Stderr string // valid UTF-8; at most Limits.Output bytes in total
	Written        int64  // total number of bytes that the program printed
	Value          string // repr of the last expression's value; "" if there is none or the value is None
	Traceback      string // traceback of the exception that ended the program, reduced to the program's own lines; "" if there is none
	ExitCode       int    // exit code of the interpreter, or -9 if it was killed
	// Limit is the limit that was exceeded, or "". The program was stopped, unless Limit is the
	// limit on output.
	Limit sandbox.Limit
	// Files are the new or changed files, ordered by name. They include plots that the program left
	// open, as figure-1.png and so on.
	Files []File
	// Removed lists the names of files in Program.Files that no longer exist.
	Removed []string
	// LeftOut lists at most 100 names of files that are not returned. Such files are too many, too
	// large or not plain files, or their names are not UTF-8.
	LeftOut []string
	// Took is the elapsed time from the beginning of the program to its end. CPU is the processor
	// time that the sandbox has used in this time.
	Took   time.Duration
	CPU    time.Duration
	Memory int64 // maximum usage observed; 0 if not measured
}

// Failed reports whether the program failed. A program that exceeded the limit on output has not
// failed.
func (o Outcome) Failed() bool {
	return o.Traceback != "" || o.ExitCode != 0 || o.Limit != "" && o.Limit != sandbox.LimitOutput
}
