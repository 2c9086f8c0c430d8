// Package widget handles the requests of the widgets that websites embed.
package widget
