// Package sentence splits an answer, while it grows, into segments that are spoken one after the
// other. It is pure: the ends of segments depend only on the answer's text, not on the pieces in
// which it arrives.
//
//	answer, as it grows ─► Cutter ─► Segment{byte range of the answer, text to speak} ─► ...
//
// The first segment is short, so that speech starts early: a sentence, or a clause of a long one.
// Later segments combine sentences to a length that sounds natural. The end of a segment does not
// depend on text before its start, so another process that resumes an answer at a segment produces
// the same segments.
package sentence
