// Package lifecycle runs the parts of a process together and ends them in order.
//
// A Group starts its components in the order they were added and stops them in the
// reverse order, so that what was started first - usually what the others stand on -
// goes last. The first component that ends, fails or panics ends the whole group.
//
//	 Run(ctx)
//	    │ every component gets a context of its own
//	    ▼
//	running ──── ctx done · a component ended, failed or panicked
//	    │
//	    ▼
//	stopping     cancel the last, wait for it, cancel the one before, …
//	    │   │
//	    │   └─ StopTimeout over ─▶ cancel all that is left, wait a moment,
//	    │                          return an error that names what still runs
//	    ▼
//	stopped      errors of all components joined
//
// Around it: Context turns SIGINT and SIGTERM into the end of a context, LockFile keeps
// two processes out of one directory, and StartChild starts a process that does not
// outlive this one.
package lifecycle
