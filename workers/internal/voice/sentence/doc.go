// Package sentence makes of an answer, while it is being written, the segments that are said one after the other. It is
// pure: where a segment ends depends on the answer's text alone, never on the pieces in which that came.
//
//	answer, as it grows ─► Cutter ─► Segment{bytes of the answer, what is said of them} ─► ...
//
// The first segment is short, for the answer to be heard early: a sentence, or of a long one a clause. Those behind it are
// sentences put together to a length that is said well at once. Nothing of what was before a segment's beginning has a
// say in where it ends, so that whoever takes an answer up at one makes the same segments of the rest.
package sentence
