// Package widget serves the widgets that sites embed.
package widget
