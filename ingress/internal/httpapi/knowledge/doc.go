// Package knowledge handles the requests for an organization's documents: upload, search, reading
// and deletion.
package knowledge
