// Package lifecycle runs the components of a process together and stops them in order.
//
// A Group starts its components in the order in which they were added, and stops them in the
// reverse order. The first components, on which the others usually depend, therefore stop last. The
// first component that ends, fails or panics stops the whole group.
//
//	Run(ctx)
//	   │ every component gets its own context
//	   ▼
//	running ──── ctx done · a component ended, failed or panicked
//	   │
//	   ▼
//	stopping     cancel the last one, wait for it, cancel the one before, …
//	   │   │
//	   │   └─ StopTimeout over ─▶ cancel all remaining ones, wait briefly,
//	   │                          return an error with the names of those still running
//	   ▼
//	stopped      errors of all components joined
//
// Context returns a context that SIGINT or SIGTERM cancels. LockFile keeps a second process out of
// a directory. Package childproc starts processes that, on Linux, do not outlive this process.
package lifecycle
