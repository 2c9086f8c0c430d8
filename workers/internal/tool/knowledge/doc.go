// Package knowledge is the tool knowledge, on the tool worker's side: it searches the documents that an agent may read, and gives
// passages of them as sources that an answer may cite.
//
//	query ─► search, within the agent's documents ─► noted as given to the run ─► passages ─► sources
//
// Which documents those are is the agent's configuration; a model names none. What documents say is foreign text, and stays inside
// the result's output and sources. No text leaves before it is noted whose it is: what is deleted afterwards is known to be in the
// run, and what was deleted before is left out.
package knowledge
