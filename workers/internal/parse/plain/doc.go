// Package plain reads formats that are text themselves: plain text, tables of delimited values, JSON.
package plain
