package workers

import "parley/workers/internal/extract"

// Extractor must be the first statement of a main function that runs workers. Workers read
// documents in sandboxes by starting this program again. Such a process reads its document within
// Extractor and exits. In any other process, Extractor returns immediately.
func Extractor() { extract.Main() }
