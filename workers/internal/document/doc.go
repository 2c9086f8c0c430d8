// Package document is what is said of a document between those who read it, who are in a sandbox, and those who index it: its
// pages and the blocks of text on them, in reading order.
package document
