// Package attach stores the attachments of a request before its run is accepted. It finds the files
// that the request refers to, fetches URLs, and checks the type and the size of each attachment. It
// decodes only the headers of images. Workers convert images and read documents in a sandbox.
//
//	data, URL, file id ─► store content ─► detect type ─► check model ─► dispatch accepts the run
//	                                          └──► fault: an error that names the field
//
// The dispatcher calls Resolve for submissions with attachments, and the handler of /api/files
// calls Upload. Contents are in blobdb and belong to the organization. A content to which no file
// refers, for example because a run was rejected, is removed at once or by the sweeper.
//
// A problem that the client can correct is a fault, which becomes an error of the request. All
// other errors are failures of the service or of the connection.
package attach
