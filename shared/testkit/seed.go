package testkit

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
)

// seedSetting is the environment variable that sets the seed. CI sets it for all packages, so that a
// repeated test makes the same choices.
const seedSetting = "PARLEY_TEST_SEED"

var seed = sync.OnceValues(func() (uint64, error) {
	given := os.Getenv(seedSetting)
	if given == "" {
		return uint64(rand.Uint32()), nil //nolint:gosec // G404: not a secret
	}
	n, err := strconv.ParseUint(given, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%s must be a number below 2^32, is %q", seedSetting, given)
	}
	return n, nil
})

// Seed returns the seed for the random choices of all tests in the process, and logs it. The seed is
// below 2^32. The environment variable PARLEY_TEST_SEED repeats the choices of an earlier process.
func Seed(tb testing.TB) uint64 {
	tb.Helper()
	n, err := seed()
	if err != nil {
		tb.Fatalf("testkit: %v", err)
	}
	tb.Logf("%s=%d repeats the choices of this test", seedSetting, n)
	return n
}
