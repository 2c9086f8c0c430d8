package workers

import "parley/workers/internal/extract"

// Extractor must be the first statement of a main function that runs workers. Workers start their
// own program again, in a sandbox, to read a document. In such a process, Extractor reads the
// document and exits. In any other process, it returns immediately.
func Extractor() { extract.Main() }
