//go:build !failpoints

package failpoint

// Here does nothing: this program was built without failpoints.
func Here(Point) {}
