package codeexec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"parley/workers/internal/tool"
)

// arguments contains the arguments of a call as the model has written them.
type arguments struct {
	Code  string   `json:"code"`
	Files []string `json:"files"`
}

// readArguments parses and checks a call's arguments. The caller has already checked them, but a
// tool worker does not trust its callers. The error is a *tool.Error that the model can correct.
// The names of files are checked later.
func readArguments(raw json.RawMessage) (arguments, error) {
	var a arguments
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(&a)
	// The decoder stops after the first JSON value, so text after that value must be detected
	// separately.
	if _, more := d.Token(); err == nil && !errors.Is(more, io.EOF) {
		err = errors.New("unexpected text after the arguments")
	}
	switch {
	case err != nil:
		return a, &tool.Error{Message: `The arguments must be {"code": "…", "files": ["…"]}, where files is optional.`, NotSent: true, Err: err}
	case strings.TrimSpace(a.Code) == "":
		return a, mistake("The code is empty.")
	// The limit counts characters, like maxLength in the schema.
	case utf8.RuneCountInString(a.Code) > maxCode:
		return a, mistake("The code is too long: it has %d characters, and the maximum is %d.", utf8.RuneCountInString(a.Code), maxCode)
	case strings.ContainsRune(a.Code, 0):
		return a, mistake("The code contains a NUL character, which Python does not allow.")
	case len(a.Files) > maxFiles:
		return a, mistake("Too many files: %d, and the maximum is %d.", len(a.Files), maxFiles)
	}
	return a, nil
}

// mistake returns an error about the arguments, which the model can correct. No program was
// started.
func mistake(format string, args ...any) error {
	return &tool.Error{Message: fmt.Sprintf(format, args...), NotSent: true}
}
