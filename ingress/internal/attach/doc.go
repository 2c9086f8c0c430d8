// Package attach stores the attachments of a request, before its run is accepted: it finds the files
// that the request names, fetches URLs, and checks the type and the size of each attachment. It reads
// only the headers of images. A worker converts images and reads documents in a sandbox.
package attach
