package workers

import "parley/workers/internal/extract"

// Extractor must be the first statement of a main function that runs workers. To read a document, a
// worker starts its own program again, in a sandbox. In such a process, Extractor reads the
// document and exits. In other processes, it returns immediately.
func Extractor() { extract.Main() }
