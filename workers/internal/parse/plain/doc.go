// Package plain reads text formats: plain text, delimited values, JSON.
package plain
