// Package plain reads text formats: plain text, delimited values and JSON.
package plain
