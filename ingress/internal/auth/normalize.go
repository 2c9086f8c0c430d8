package auth

import (
	"fmt"

	"golang.org/x/text/secure/precis"
)

// NormalizePassword gives the form of a password that is hashed: OpaqueString of RFC 8265. Two keyboards may type the same
// password as different code points, such as "é" as one or as two. It is an error when the password has characters that no
// new password may have, such as control characters.
func NormalizePassword(password string) (string, error) {
	normal, err := precis.OpaqueString.String(password)
	if err != nil {
		return "", fmt.Errorf("normalizing password: %w", err)
	}
	return normal, nil
}

// spellings gives the forms of a password to compare with a stored hash: the normalized one, and the one that was typed,
// which older hashes were made of.
func spellings(password string) []string {
	normal, err := NormalizePassword(password)
	if err != nil || normal == password {
		return []string{password}
	}
	return []string{normal, password}
}
