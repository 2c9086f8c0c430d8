// Package backends chooses what speech is understood and made with, by the settings.
package backends
