// Package attachment prepares the attachments of runs: it converts images, and reads the text of
// documents. The readers of both run in a sandbox. The results are stored, so that a later attempt or
// turn of the session does not prepare an attachment again.
package attachment
