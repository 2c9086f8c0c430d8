// Package knowledge implements the tool knowledge in the tool worker. It searches the documents
// that an agent may read, and returns passages as sources that an answer may cite.
//
//	query ─► search within the agent's documents ─► recorded as given to the run ─► passages ─► sources
//
// The agent's configuration determines the documents; a model names none. Text of documents is
// untrusted and stays within the result's output and sources. Text is recorded as given to the run
// before it is returned. If a document is deleted later, the runs that contain its text are known;
// text of a document that was deleted before is omitted.
package knowledge
