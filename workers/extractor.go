package workers

import "parley/workers/internal/extract"

// Extractor is the first statement of a main that runs workers: they read documents in sandboxes, by this very program, and a
// process that was started for that reads its document here, and exits. In any other it returns at once.
func Extractor() { extract.Main() }
