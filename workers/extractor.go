package workers

import "parley/workers/internal/extract"

// A program that runs workers must call Extractor in the first statement of its main function. To
// read a document, a worker starts its own program again in a sandbox. In such a process, Extractor
// reads the document and exits. In any other process, it returns immediately.
func Extractor() { extract.Main() }
