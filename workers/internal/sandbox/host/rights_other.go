//go:build !linux

package host

import "errors"

// MayNamespace is false: namespaces are Linux's.
func MayNamespace() bool { return false }

// MayChangeUser is false for the same reason.
func MayChangeUser() bool { return false }

// SealDescriptors fails: sandboxes are made on Linux.
func SealDescriptors() error { return errors.New("sandboxes need Linux") }
