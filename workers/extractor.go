package workers

import "parley/workers/internal/extract"

// Extractor reads a document and exits if the process was started for that. In any other process, it
// returns immediately. To read a document, a worker starts its own program again in a sandbox. So a
// program that runs workers calls Extractor first in its main function.
func Extractor() { extract.Main() }
