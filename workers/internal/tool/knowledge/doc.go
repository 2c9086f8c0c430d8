// Package knowledge implements the tool knowledge in the tool worker. It searches the documents
// that an agent may read, and returns passages as sources that an answer may cite.
//
//	query ─► search within the agent's documents ─► recorded as given to the run ─► passages ─► sources
//
// The agent's configuration determines the documents; a model cannot name any. Text of documents is
// untrusted and is returned only in the result's output and sources. Before text is returned, it is
// recorded as given to the run. So if a document is deleted later, the runs that contain its text
// are known. Text of a document that no longer exists is omitted.
package knowledge
