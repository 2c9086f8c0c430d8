// Package chaos tests that nothing is lost.
package chaos
