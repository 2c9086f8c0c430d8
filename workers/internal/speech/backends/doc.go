// Package backends creates the speech backends that the settings name.
package backends
