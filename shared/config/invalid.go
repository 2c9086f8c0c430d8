package config

import "cmp"

// InvalidError is the error of a setting that is missing or has an invalid value. Its text names
// the setting. Programs that have an exit status for wrong settings recognize it by its type.
type InvalidError struct{ err error }

// Error returns the text of the cause.
func (e *InvalidError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *InvalidError) Unwrap() error { return e.err }

// Invalid returns the first error of the checks as an *InvalidError, or nil if there is none.
func Invalid(checks ...error) error {
	if err := cmp.Or(checks...); err != nil {
		return &InvalidError{err}
	}
	return nil
}
