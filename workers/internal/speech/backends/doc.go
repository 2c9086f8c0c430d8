// Package backends selects speech backends according to the settings.
package backends
