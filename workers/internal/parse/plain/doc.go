// Package plain reads text formats: plain text, delimited values and JSON. Package formats
// registers its readers, which run only in the sandboxed reader process.
//
// These formats state little about their structure, so the readers recognize it: headings, lists
// and columns in plain text, the delimiter and the header of a table, and lists of similar objects
// in JSON. If nothing is recognized, the text is written as paragraphs, so no text is lost.
//
// All readers take linear time. Quotes without an end, deep nesting and very long rows are limited.
package plain
