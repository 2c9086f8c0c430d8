// Package sentence splits an answer into segments that are spoken one after the other, while the
// answer is still being written. The ends of segments depend only on the text of the answer, not on
// the pieces in which it arrives.
//
//	answer, as it grows ─► Cutter ─► Segment{byte range of the answer, text to speak} ─► ...
//
// The first segment is short, so that speech starts early: a sentence, or a clause of a long
// sentence. Later segments combine sentences to a length that sounds natural. The end of a segment
// does not depend on text before its start. So another process that resumes an answer at the
// beginning of a segment produces the same segments.
package sentence
