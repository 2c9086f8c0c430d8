// Package attach stores the attachments of a request before its run is accepted. It finds the files
// that the request refers to, fetches URLs, and checks the type and the size of each attachment. It
// decodes only the headers of images. Workers convert images and read documents in a sandbox.
package attach
