// Package attachment prepares the attachments of runs: it converts images and extracts the text of
// documents, both in a sandbox. The results are stored, so later attempts and later turns of the
// session use them again.
package attachment
