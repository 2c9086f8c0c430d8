package auth

import (
	"fmt"

	"golang.org/x/text/secure/precis"
)

// NormalizePassword returns a password in the normalized form that is hashed, OpaqueString of RFC
// 8265. Two keyboards may produce different code points for the same password, for example one or
// two for "é". It returns an error for characters that new passwords may not contain, such as
// control characters.
func NormalizePassword(password string) (string, error) {
	normal, err := precis.OpaqueString.String(password)
	if err != nil {
		return "", fmt.Errorf("normalizing password: %w", err)
	}
	return normal, nil
}

// spellings returns the two forms of a password that are compared with a stored hash: the
// normalized form, and the form as typed. Older hashes were computed from the form as typed. The
// normalized form comes first. The result has one or two elements.
func spellings(password string) []string {
	// The normalization fails for some passwords that were set before passwords were normalized.
	normal, err := NormalizePassword(password)
	if err != nil || normal == password {
		return []string{password}
	}
	return []string{normal, password}
}
