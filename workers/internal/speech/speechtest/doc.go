// Package speechtest verifies that speech backends keep the contract of package speech. It also
// contains a stub of an audio service.
package speechtest
