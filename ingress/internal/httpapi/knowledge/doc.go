// Package knowledge handles the requests for an organization's documents: upload, search, reading
// and deletion. Clients are the dashboard's page for documents and programs that fill a knowledge
// base.
//
// Uploaded content flows through a transfer.Limiter into blobdb, in pieces, so that no document is
// in memory as a whole. Then knowledgedb adds a row with the status queued and a job, which a
// worker processes. Responses to additions therefore have the status 202: clients poll the
// document, or watch for changes, until its status is ready or failed.
//
// Searches and pictures of pages are computed by workers with the role tool. This package calls
// them over NATS with signed claims, which name the organization. Pictures are cached in memory,
// separately in each ingress process.
//
// Admins add, change and delete documents; members may search and read them. The package neither
// parses documents nor decides what agents find in them.
package knowledge
