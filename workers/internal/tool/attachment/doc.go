// Package attachment prepares the attachments of runs: it converts images and extracts the text of
// documents, both in a sandbox. The results are stored, so later attempts and later turns of the
// session use them again.
//
// The runner calls it like a tool, but no model sees it. It runs in the tool worker, which has the
// sandbox. Package runner reads the stored results and puts them into prompts.
//
//	file ─┬─ image ────► converted copy, and its recognized text if the model sees no images
//	      └─ document ─► text with marks for pages, as a source of the run
package attachment
