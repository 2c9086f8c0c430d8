package workers

import "parley/workers/internal/extract"

// Extractor must be the first statement of the main function of a program that runs workers. To
// read a document, a worker starts its own program again in a sandbox. In such a process, Extractor
// reads the document and exits. In any other process, it returns immediately.
func Extractor() { extract.Main() }
