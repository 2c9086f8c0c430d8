//go:build !linux

package host

import "errors"

// MayNamespace returns false, because only Linux has namespaces.
func MayNamespace() bool { return false }

// MayChangeUser returns false, because there are no sandboxes on this system.
func MayChangeUser() bool { return false }

// SealDescriptors fails, because sandboxes require Linux.
func SealDescriptors() error { return errors.New("sandboxes need Linux") }
