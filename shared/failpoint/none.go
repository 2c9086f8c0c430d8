//go:build !failpoints

package failpoint

// Here does nothing, because the program was built without failpoints.
func Here(Point) {}
