// Package speechtest checks that speech backends keep what package speech promises, and has a stub of an audio service.
package speechtest
